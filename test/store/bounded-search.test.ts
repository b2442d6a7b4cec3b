import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Store } from '../../src/store/store.ts';
import { temporaryFolder } from '../temporary.ts';
import { acceptanceOf, deployOf, flowId, graphOf, id, T0 } from './samples.ts';

/** As many rows as a search reads. */
const SEARCHED = 10_000;
const busyFlow = '6f2b1c1e-9999-4222-8333-444455556666';
const page = { skip: 0, take: 50, includeTotal: true };

let folder: string;
let store: Store;
beforeAll(async () => {
  folder = temporaryFolder('search');
  const path = join(folder, 'sluice.db');
  store = await openSqliteStore({ path });
  await store.deployFlow(deployOf(graphOf({ only: [] })));
  expect((await store.accept(acceptanceOf(1, { at: T0 }))).kind).toBe('accepted');
  // The second oldest row is the last one that a search reads.
  const db = new Database(path);
  db.exec(`
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${SEARCHED})
    INSERT INTO runs (id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type, started_at, completed_at)
    SELECT 'f0000000-0000-7000-9000-' || printf('%012x', n), '${busyFlow}', 'Busy', '1', 1, 'Succeeded', 'hook', 'webhook',
      ${T0} + n, ${T0} + n FROM numbers;
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${SEARCHED})
    INSERT INTO deliveries (id, received_at, client_ip, mode, rejected, enforced, status_code, violations, body_bytes,
      processing_ms, run_id, used_previous_key, kept_bytes)
    SELECT 'f0000000-0000-7000-9000-' || printf('%012x', n), ${T0} + n, '192.0.2.1', 'Enforce', 0, 0, 200, '[]', 0, 1,
      'f0000000-0000-7000-9000-' || printf('%012x', n), 0, 0 FROM numbers`);
  db.close();
}, 30_000);
afterAll(async () => {
  await store.close();
});

describe('a search that stops', () => {
  it('says where, of runs and of deliveries', async () => {
    expect(await store.listRuns({ ...page, search: 'nothing has this' })).toMatchObject({
      total: 0,
      searchedUntil: T0 + 1,
    });
    expect(await store.listDeliveries({ ...page, search: 'nothing has this' })).toMatchObject({
      total: 0,
      searchedUntil: T0 + 1,
    });
  });

  it('says so of what the other filters leave', async () => {
    const ofBusy = { ...page, search: 'nothing has this', flowId: busyFlow };
    expect(await store.listRuns(ofBusy)).not.toHaveProperty('searchedUntil');
    expect(await store.listRuns({ ...page, search: 'nothing', until: T0 + 2 })).not.toHaveProperty('searchedUntil');
  });

  it('goes on from there', async () => {
    const { searchedUntil = 0 } = await store.listRuns({ ...page, search: 'orders' });
    const older = await store.listRuns({ ...page, search: 'orders', until: searchedUntil + 1 });
    expect(older.items.map((run) => run.id)).toEqual([id(1001)]);
    expect(older).not.toHaveProperty('searchedUntil');
  });

  it('has the runs of a trigger that it names, however old', async () => {
    const { triggerKey } = acceptanceOf(1).run;
    const named = await store.listRuns({ ...page, search: triggerKey, searchedTriggers: [triggerKey] });
    expect(named).toMatchObject({ total: 1, items: [{ id: id(1001) }] });
  });

  it('has the runs of a flow that it names, however old', async () => {
    const named = await store.listRuns({ ...page, search: 'orders', searchedFlows: [flowId] });
    expect(named).toMatchObject({ total: 1, items: [{ id: id(1001) }], searchedUntil: T0 + 1 });
    const running = await store.listRuns({ ...page, search: 'orders', searchedFlows: [flowId], status: 'Failed' });
    expect(running.items).toEqual([]);
  });
});
