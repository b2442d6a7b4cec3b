import type { SchemaDifference } from './contract/examination.ts';

/**
 * What a schema holds, by name, such as `table runs`, `column runs.id`, `index runs_by_time on runs`, `trigger note on runs`
 * and `view run_inputs`, with how it is made where that is known.
 */
export type SchemaObjects = ReadonlyMap<string, string>;

/** What differs between a schema and the one that migrations make. Tables of others are ignored. */
export function schemaDifference(found: SchemaObjects, own: SchemaObjects): SchemaDifference {
  const lacks: string[] = [];
  for (const [name, form] of own) {
    const [, ofColumn, ofOther] = /^(?:column (.*)\.|.* on (.*))/.exec(name) ?? [];
    const table = ofColumn ?? ofOther;
    // What a missing table had is not told.
    if (table !== undefined && !found.has(`table ${table}`) && !found.has(`view ${table}`)) continue;
    if (!found.has(name)) lacks.push(`the ${name} is missing`);
    else if (found.get(name) !== form) lacks.push(`the ${name} was changed`);
  }
  const foreign = [...found.keys()].filter((name) => {
    const [, kind, table] = /^(trigger|view|index) .*?(?: on (.*))?$/.exec(name) ?? [];
    if (kind === undefined || own.has(name)) return false;
    return table === undefined || own.has(`table ${table}`) || own.has(`view ${table}`);
  });
  return { lacks, foreign: foreign.sort() };
}

const MOST_NAMED = 5;

/** Throws where something is missing: what relies on it would fail one delivery after the other, or let one pass twice. */
export function refuseIncomplete({ lacks }: SchemaDifference): void {
  if (lacks.length === 0) return;
  const more = lacks.length > MOST_NAMED ? `; and ${lacks.length - MOST_NAMED} more` : '';
  throw new Error(
    `its schema was changed: ${lacks.slice(0, MOST_NAMED).join('; ')}${more}. Undo the change, or restore a backup; \`sluice doctor\` lists all`,
  );
}
