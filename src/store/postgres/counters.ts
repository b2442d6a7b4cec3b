import { COUNTED, type CollectedCounts, type CountTable } from '../decisions/counts.ts';
import { givenRows } from '../tables.ts';
import { jsonRows, type Part } from './sql.ts';

/**
 * Statements that add all new counts to the stored ones. Counts go to rows of the writer's own slot, so that no
 * transaction waits for another one's row, and readers add the slots up. A single slot may hold a negative count: one
 * writer may take back what another one counted.
 */
export function partsOf(counts: CollectedCounts, slot: number): Part[] {
  return counts.take().map(({ table, rows }) => {
    const { key } = COUNTED[table];
    const given = rows.map((row) => ({
      ...Object.fromEntries(key.map((name, at) => [name, row.key[at] ?? null])),
      ...row.amounts,
    }));
    return (bind) => insertInto(table, bind(slot), bind(jsonRows(given)));
  });
}

function insertInto(table: CountTable, slot: string, rows: string): string {
  const { key, amounts, types } = COUNTED[table];
  const names = amounts.map(({ name }) => name);
  const ofGiven = (columns: readonly string[]) => columns.map((column) => `given.${column}`).join(', ');
  const added = amounts.map(({ name, merge }) => {
    return `${name} = ${merge === 'sum' ? `t.${name} + excluded.${name}` : `${merge}(t.${name}, excluded.${name})`}`;
  });
  return `
    INSERT INTO sluice.${table} AS t (${key.join(', ')}, slot, ${names.join(', ')})
    SELECT ${ofGiven(key)}, ${slot}, ${ofGiven(names)} FROM jsonb_to_recordset(${rows}) ${givenRows(types)}
    ON CONFLICT (${key.join(', ')}, slot) DO UPDATE SET ${added.join(', ')}`;
}
