import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { DAY_MS } from '../../../src/model/clock.ts';
import { openPostgresStore } from '../../../src/store/postgres/client.ts';
import { openSqliteStore } from '../../../src/store/sqlite/client.ts';
import type { Store } from '../../../src/store/store.ts';
import { runSql, storeOptions } from '../../postgres/schemas.ts';

/** Tables of runs and deliveries. Figures, flows and people's actions are kept longer, or for ever. */
const OF_RUNS_AND_DELIVERIES = [
  ...['runs', 'run_inputs', 'run_deliveries', 'run_keys', 'run_pins', 'sub_runs', 'ordered_runs', 'orphaned_runs'],
  ...['removed_runs', 'steps', 'attempts', 'signals', 'loops', 'loop_items', 'coalesce_groups', 'idempotency_keys'],
  ...['deliveries', 'delivery_keys', 'delivery_shares', 'held_deliveries', 'nonces', 'event_ids'],
];
const LIMIT = 100;
/** Event ids are kept for a month, and the proof's clocks run ahead. */
const LATER_MS = 400 * DAY_MS;

/** A database that no service uses: a file or a schema. */
export type Left = { readonly file: string } | { readonly schema: string };

const open = (left: Left): Promise<Store> =>
  'file' in left
    ? openSqliteStore({ path: left.file })
    : (openPostgresStore(storeOptions(left.schema)) as unknown as Promise<Store>);

async function countRows(left: Left): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  if ('file' in left) {
    const db = new Database(left.file, { readonly: true });
    for (const table of OF_RUNS_AND_DELIVERIES) {
      counts[table] = Number(db.prepare(`SELECT count(*) FROM ${table}`).pluck().get());
    }
    db.close();
  } else {
    for (const table of OF_RUNS_AND_DELIVERIES) {
      const [row] = await runSql(`SELECT count(*)::integer AS count FROM "${left.schema}".${table}`);
      counts[table] = Number(row?.count);
    }
  }
  return counts;
}

async function removeBefore(store: Store, before: number): Promise<void> {
  while (!(await store.purgeRuns({ before, maxRows: LIMIT })).isDone);
  while ((await store.purgeDeliveries({ before, limit: LIMIT })) === LIMIT);
}

/** Removing old runs and deliveries leaves younger ones complete; once all are old, no row remains. */
export async function expectRemoval(left: Left, about: string): Promise<void> {
  const store = await open(left);
  const { items } = await store.listRuns({ skip: 0, take: 5000 });
  const times = items.map(({ startedAt }) => startedAt).sort((a, b) => a - b);
  const before = times[Math.floor(times.length / 2)] ?? 0;
  const young = items.filter(({ startedAt }) => startedAt >= before);
  const inputs = async () =>
    Promise.all(
      young.map(({ id }) => Promise.all([store.findRun(id), store.listSteps(id), store.readRunInput({ runId: id })])),
    );
  const kept = await inputs();
  await removeBefore(store, before);
  expect(await inputs(), `${about}: runs that are young`).toEqual(kept);
  const later = Date.now() + LATER_MS;
  await removeBefore(store, later);
  while ((await store.purgeNonces({ now: later, limit: LIMIT })) === LIMIT);
  await removeBefore(store, later);
  await store.close();
  const rows = Object.entries(await countRows(left)).filter(([, count]) => count > 0);
  expect(Object.fromEntries(rows), `${about}: rows of what was removed`).toEqual({});
}
