import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { migrate, openWriter } from '../../src/store/sqlite/connection.ts';
import { migrations } from '../../src/store/sqlite/migrations/index.ts';
import { newPaths } from './files.ts';
import { acceptanceOf, aNonce, claimAll, finish, flowId, graphOf, id, succeeded, T0 } from './samples.ts';

const newPath = newPaths();
const graph = graphOf({ first: [], last: ['first'] });
const snapshot = JSON.stringify({ id: flowId, name: 'Orders', version: '1.0', triggers: {}, steps: graph });

/** A database file as the release with so many migrations left it. */
function earlier(version: number): string {
  const path = newPath();
  mkdirSync(dirname(path), { recursive: true });
  const db = new SqliteDatabase(path);
  migrate(db, migrations.slice(0, version));
  fill(db);
  db.close();
  return path;
}

/** What any release has written: the columns of the first one. */
function fill(db: Database): void {
  const insert = (table: string, row: Record<string, unknown>) => {
    const columns = Object.keys(row);
    db.prepare(`INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`).run(
      Object.values(row),
    );
  };
  const flow = { id: flowId, name: 'Orders', version: '1.0', revision: 1, is_enabled: 1 };
  insert('flows', { ...flow, created_at: T0, updated_at: T0 });
  const revision = { flow_id: flowId, revision: 1, version: '1.0', hash: 'h', snapshot, created_at: T0 };
  insert('revisions', revision);
  const delivery = { id: id(1), flow_id: flowId, trigger_key: 'github', received_at: T0, client_ip: '192.0.2.7' };
  insert('deliveries', {
    ...delivery,
    mode: 'Enforce',
    rejected: 0,
    enforced: 0,
    status_code: 200,
    violations: '[]',
    body_bytes: 2,
    processing_ms: 1,
    run_id: id(1001),
    used_previous_key: 0,
    headers: '{}',
  });
  const run = { id: id(1001), flow_id: flowId, flow_name: 'Orders', flow_version: '1.0', revision: 1 };
  insert('runs', {
    ...run,
    status: 'Running',
    trigger_key: 'github',
    trigger_type: 'webhook',
    delivery_id: id(1),
    started_at: T0,
    idempotency_key: 'key',
    trigger_headers: '{}',
    trigger_body: Buffer.from('{}'),
  });
  insert('idempotency_keys', { flow_id: flowId, trigger_key: 'github', key: 'key', run_id: id(1001), created_at: T0 });
  insert('steps', { run_id: id(1001), step_key: 'first', step_type: 'NoOp', status: 'Pending', due_at: T0 });
}

function schemaOf(db: Database): unknown[] {
  return db.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY type, name').all();
}

describe('a database of an earlier release', () => {
  test.each(migrations.map(({ version, name }) => [version, name] as const))(
    'of schema version %i (%s) goes on as it was, with all that came since',
    async (version) => {
      const store = await openSqliteStore({ path: earlier(version) });
      onTestFinished(() => store.close());
      const [flow] = await store.listFlows();
      expect(flow).toEqual({
        id: flowId,
        name: 'Orders',
        version: '1.0',
        revision: 1,
        isEnabled: true,
        createdAt: T0,
        updatedAt: T0,
      });
      expect(await store.findRevision(flowId, 1)).toMatchObject({ hash: 'h', snapshot: JSON.parse(snapshot) });
      expect((await store.listRevisions({ flowId, skip: 0, take: 9 }))?.items).toMatchObject([
        { revision: 1, source: null, findings: [], overrides: [], runs: 1, runsInFlight: 1 },
      ]);
      expect(await store.readLiveFlow(flowId)).toMatchObject({ runsInFlight: 1, stepsWithHistory: ['first'] });
      expect(await store.findDelivery(id(1))).toMatchObject({ runId: id(1001), statusCode: 200 });
      expect(await store.accept(acceptanceOf(2, { idempotencyKey: 'key' }))).toMatchObject({ runId: id(1001) });
      for (const stepKey of ['first', 'last']) {
        const [claim] = await claimAll(store);
        expect(claim).toMatchObject({ stepKey });
        if (claim !== undefined) await finish(store, claim, succeeded());
      }
      expect(await store.findRun(id(1001))).toMatchObject({ status: 'Succeeded' });
      expect(await store.accept(acceptanceOf(3, { nonce: aNonce() }))).toMatchObject({ kind: 'accepted' });
      await store.setFlowDraining({ flowId, isDraining: true, at: T0 });
      expect(await store.holdDelivery(acceptanceOf(4))).toMatchObject({ kind: 'held' });
    },
  );

  test('has the schema that a new one has', () => {
    const fresh = new SqliteDatabase(':memory:');
    migrate(fresh, migrations);
    for (const { version } of migrations) {
      const { db: migrated, close } = openWriter(earlier(version));
      expect(schemaOf(migrated)).toEqual(schemaOf(fresh));
      close();
    }
    fresh.close();
  });

  test('is brought up to date once: a second start changes nothing', () => {
    const path = newPath();
    openWriter(path).close();
    const { db, close } = openWriter(path);
    const applied = db.prepare('SELECT version FROM schema_migrations ORDER BY version').raw().all().flat();
    expect(applied).toEqual(migrations.map(({ version }) => version));
    const before = schemaOf(db);
    migrate(db, migrations);
    expect(schemaOf(db)).toEqual(before);
    close();
  });
});

test('the counts of a loop are made possible once, and then cannot become impossible', () => {
  const db = new SqliteDatabase(':memory:');
  migrate(
    db,
    migrations.filter(({ version }) => version < 8),
  );
  db.exec("INSERT INTO loops VALUES ('r', 'each', 3, 1, 2, 2, -1), ('r', 'other', 3, 1, 3, 3, 1)");
  db.exec(`INSERT INTO loop_items (run_id, step_key, items) VALUES ('r', 'each', '["a","b","c"]')`);
  migrate(db, migrations);
  const rows = db.prepare('SELECT step_key, total, started, ended, failed FROM loops ORDER BY step_key').raw().all();
  expect(rows).toEqual([
    ['each', 3, 2, 2, 0],
    ['other', 3, 3, 3, 1],
  ]);
  expect(db.prepare('SELECT first_index, items FROM loop_items').raw().all()).toEqual([[0, '["a","b","c"]']]);
  for (const change of ['failed = -1', 'failed = 4', 'ended = 4', 'started = 4']) {
    expect(() => db.exec(`UPDATE loops SET ${change}`)).toThrow('CHECK');
  }
  db.close();
});

test('migrations are numbered in their order', () => {
  const versions = migrations.map(({ version }) => version);
  expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b));
});

// A database that has one of these will not run it again: to change the schema, add another.
const released: readonly [version: number, sha256: string][] = [
  [1, 'd07f98ff914e2118dfaa49859c0f2f2740093d098da3811abd0138bd293cf8f8'],
  [2, 'ff3ce35f8d3a88fff96624bac50b1bdfb5987ba1b0a15bfbe5e1d6b4649c85cf'],
  [3, '4f9d7e889f60abaee97c1f13bfe5222a64ee6a9adfd428c44cf4a95994b00b8e'],
  [4, '0390935befd8e6752f3607c64d07d838b466bfe5f6b2a248d541dd4609ca27d6'],
  [5, 'b7511ca639cc0f33601b0312372af3b932d0818c5716f3fd6b4475177d795094'],
  [6, 'b60ee934b7e03c880d778743d71cbcbb041901889cfdad482b02905178122a1e'],
  [7, 'a78c8f8b1cca4f6aa36c6ad6ce3012fcfe2c59b4194557107add8b0c848d92bb'],
  [8, '842d2957f56c08761bc4f29d35513499a61fb6b572b518bed4c10b817cc05bec'],
  [9, 'da9f46c4b4239d4e388789b6013c7f450d84b41ef863aa28f4762b4771545c3a'],
  [10, '57e811e40addbee894eee76e955dcd424cba56bc87251a3dc48d74870f4fea20'],
  [11, '91d71c73428c3d7f4329c1f6158a86855735729110276c3672fbb0230817989c'],
  [12, '0442e81f4414c4af7fb781e2c90a47453a494bfe2e63a628fc04d41ee9df8135'],
  [13, '73f4b8d031cc8a61451c31d9ac059fafebfbe74c8ad7bac35501ccf0bfb7cc22'],
  [14, '0776c9ecb6132e3ef77388a46ca159b1cc616581fa0ed4775a3df35c62bdc67d'],
  [15, '879c5cfc31449e23dbf8a296ab2bb279bed2b186fa06d657bf4949a68d6a6a92'],
  [16, 'd057e0a71cf661efc1d1bca8500b4bbd968c528c2907c9b85334ac10cc295045'],
  [17, 'cf675c6e5acbcc0fce20f1f688da40e4248220bd5d28da6d9706d2b43ec10658'],
  [18, 'b5fbbb2f5f5bab19ce7c5b84956198d88c4953f145a47543c3107ce81491c564'],
  [19, '090372784dd57d9015f38729a8e4e616b35b5acd3793d29fee1e3a1949b2fb13'],
  [20, 'affbdd5db4e90d8cfe9c7394ac16ec895059d24d6e9ef3221b76475f9f1260a7'],
];

test('every migration is frozen', () => {
  expect(released.map(([version]) => version)).toEqual(migrations.map(({ version }) => version));
});

test.each(released)('migration %i is what it was when it was released', (version, sha256) => {
  const sql = migrations.find((migration) => migration.version === version)?.sql ?? '';
  expect(createHash('sha256').update(sql.replace(/\s+/g, ' ').trim()).digest('hex')).toBe(sha256);
});
