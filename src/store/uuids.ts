const FORM = '00000000-0000-0000-0000-000000000000';
const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
/** A shorter prefix would match too many rows. */
const SHORTEST = 8;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * An id for a column of UUIDs; null, which equals nothing, if a text is not a UUID in its usual form. PostgreSQL takes
 * other forms of a UUID too, and would find by them ids that no caller stored.
 */
export function uuidOf(text: string): string | null;
export function uuidOf(text: string | null): string | null;
export function uuidOf(text: string | null): string | null {
  return text !== null && UUID.test(text) ? text : null;
}

/** The first and last id that begin like this; undefined if this is not the beginning of an id, or too short. */
export function uuidRange(beginning: string): { readonly from: string; readonly to: string } | undefined {
  const isBeginning = [...beginning].every((character, at) =>
    FORM[at] === '-' ? character === '-' : /[0-9a-f]/.test(character),
  );
  if (!isBeginning || beginning.length < SHORTEST || beginning.length > FORM.length) return undefined;
  return { from: beginning + FORM.slice(beginning.length), to: beginning + LAST.slice(beginning.length) };
}
