/** Longer than a sentence; a kind names a group, and stands in an address. */
const MAX_CHARACTERS = 200;

/** Ids, times, numbers of four digits or more, numbers in a path, and the ends of lines. */
const VARYING =
  /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z?|\b(?=\w*\d)\w{8,}\b|\d{4,}|(?<=\/)\d+(?![^/\s])|\s*[\n\r\t]\s*/gi;

/** Stands for anything, in a kind and in a filter. */
export const ANYTHING = '…';

/** A message without what differs from run to run, so that the same failure of many runs has one kind. */
export function kindOfError(message: string): string {
  // Of a very long message only the beginning can be seen.
  const kind = message.slice(0, MAX_CHARACTERS * 5).replace(VARYING, ANYTHING);
  return kind.length <= MAX_CHARACTERS
    ? kind
    : `${kind.slice(0, MAX_CHARACTERS).replace(/[\ud800-\udbff]$/, '')}${ANYTHING}`;
}

/** The code of a fault, or of what caused it, or else its name: a message may hold a path, a request or a secret. */
export function codeOf(error: unknown): string {
  const seen = new Set<unknown>();
  let cause = readable(error);
  while (cause instanceof Error) {
    if ('code' in cause && typeof cause.code === 'string') return cause.code;
    seen.add(cause);
    const next = readable(cause.cause);
    // A cause of its own, at whatever distance, leads no further.
    if (cause.name !== 'Error' || !(next instanceof Error) || seen.has(next)) return cause.name;
    cause = next;
  }
  return 'unknown';
}

/** The error, or one that says so where it throws when it is read, as one of an operator's code may. */
export function readable(error: unknown): unknown {
  const { message } = writable(error, 0);
  return message === UNREADABLE ? new Error(message) : error;
}

const UNREADABLE = 'what was thrown cannot be read';
/** A person would not read more; they may be thousands. */
const MOST_CAUSES = 5;

/**
 * What a log can write of anything that was thrown, or of the error in the fields of a line: texts alone. A log marks the
 * error that it writes, which may be frozen, and reads its properties and causes, which may throw.
 */
export function writable(given: unknown, causes = MOST_CAUSES): Error {
  try {
    const thrown: unknown = given instanceof Error ? given : (Object(given).err ?? given);
    if (!(thrown instanceof Error)) return new Error(Object(thrown) === thrown ? 'no error' : String(thrown));
    const { name, message, stack = '', cause } = thrown;
    const texts = [name, message, stack, String('code' in thrown && thrown.code)];
    if (texts.some((text) => typeof text !== 'string')) return new Error(UNREADABLE);
    const because = cause === undefined || causes === 0 ? {} : { cause: writable(cause, causes - 1) };
    return Object.assign(new Error(message, because), { stack });
  } catch {
    return new Error(UNREADABLE);
  }
}
