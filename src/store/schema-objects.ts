import type { SchemaDifference } from './contract/examination.ts';

/**
 * The objects of a schema, by name, such as `table runs`, `column runs.id`, `index runs_by_time on runs`, `trigger note
 * on runs` and `view run_inputs`, each with its definition where that is known.
 */
export type SchemaObjects = ReadonlyMap<string, string>;

/** How a schema differs from the one that migrations make. Ignores tables of others. */
export function schemaDifference(found: SchemaObjects, own: SchemaObjects): SchemaDifference {
  const lacks: string[] = [];
  for (const [name, form] of own) {
    const [, ofColumn, ofOther] = /^(?:column (.*)\.|.* on (.*))/.exec(name) ?? [];
    const table = ofColumn ?? ofOther;
    // Of a missing table only the table is reported, not its columns, indexes and triggers.
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

/** Whether all tables, columns and views are as migrations make them, so that they can be read. */
export const canBeRead = ({ lacks }: SchemaDifference): boolean =>
  !lacks.some((line) => /^the (table|column|view) /.test(line));

const MOST_NAMED = 5;

/** Throws if something is missing: code that relies on it would fail each delivery, or let one pass twice. */
export function refuseIncomplete({ lacks }: SchemaDifference): void {
  if (lacks.length === 0) return;
  const more = lacks.length > MOST_NAMED ? `; and ${lacks.length - MOST_NAMED} more` : '';
  throw new Error(
    `its schema was changed: ${lacks.slice(0, MOST_NAMED).join('; ')}${more}. Undo the change, or restore a backup; \`sluice doctor\` lists all`,
  );
}
