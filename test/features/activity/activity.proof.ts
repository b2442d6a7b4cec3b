import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { activityStore } from '../../../src/features/activity/store.ts';
import { verifyActivity } from '../../../src/features/activity/view.ts';
import { bodySealer } from '../../../src/store/sealed-body.ts';
import { openSqliteStore } from '../../../src/store/sqlite/client.ts';
import type { Store } from '../../../src/store/store.ts';
import { runCli } from '../../e2e/cli.ts';
import { createWorkspace } from '../../e2e/service.ts';
import { flowId, id, T0 } from '../../store/samples.ts';

const SECRET = 'the key of the store under test';

async function act(store: Store, ...numbers: number[]): Promise<void> {
  const about = { actor: 'oncall', clientIp: null, action: 'disableFlow', details: {}, reason: 'ordered twice' };
  for (const n of numbers) {
    await store
      .of(activityStore)
      .beginIntervention({ id: id(n), at: T0 + n, target: { type: 'flow', id: flowId }, ...about });
    await store.of(activityStore).endIntervention({ id: id(n), statusCode: 200 });
  }
}

test('the command lists who did what, and verifies it: 0 whole, 1 broken, 2 not to be checked', async () => {
  const workspace = await createWorkspace();
  const path = join(workspace.folder, 'data/sluice.db');
  const store = await openSqliteStore({ path, chainKey: bodySealer(SECRET).chainKey });
  await act(store, 1, 2);
  await store.close();
  // No service listens on port 1.
  const env = { SLUICE_PORT: '1', SLUICE_DATABASE_URL: `sqlite:${path}`, SLUICE_STORE_KEY: SECRET };
  const run = (args: readonly string[], more = {}) =>
    runCli(workspace, ['activity', ...args], { env: { ...env, ...more } });

  const listed = await run(['--since', new Date(T0 + 2).toISOString()]);
  expect(listed.stdout).toMatch(new RegExp(`^\\S+Z  oncall  disableFlow flow ${flowId}: ordered twice\n$`));
  const whole = await run(['verify']);
  expect(whole).toMatchObject({ code: 0, stdout: expect.stringContaining('is whole: 4 rows') });
  const [newest = ''] = /4:[0-9a-f]{64}/.exec(whole.stdout) ?? [];
  expect(await run(['verify', '--expect', newest], { SLUICE_STORE_KEY: 'another key, not that one' })).toMatchObject({
    code: 2,
  });

  const db = new SqliteDatabase(path);
  db.exec("UPDATE interventions SET actor = 'nobody' WHERE seq = 3");
  db.close();
  const broken = await run(['verify', '--json']);
  expect(broken.code).toBe(1);
  expect(JSON.parse(broken.stdout)).toMatchObject({
    verdict: 'broken',
    faults: [{ kind: 'changed', seq: 3, row: { id: id(2), actor: 'nobody', at: new Date(T0 + 2).toISOString() } }],
  });
}, 60_000);

test('a row that an earlier check called the newest must still be there, or have been removed for its age', async () => {
  const store = await openSqliteStore({ path: ':memory:' });
  onTestFinished(() => store.close());
  await act(store, 1, 2);
  const { newest } = await verifyActivity(store);
  await act(store, 3, 4);
  const kept = { seq: 4, hash: newest?.hash ?? '' };
  expect(await verifyActivity(store, kept)).toMatchObject({ verdict: 'whole', rows: 8 });
  const other = { seq: 4, hash: 'f'.repeat(64) };
  const notThere = [other, { ...kept, seq: 3 }, { ...kept, seq: 9 }];
  for (const expected of notThere) {
    expect(await verifyActivity(store, expected)).toMatchObject({ verdict: 'broken', faults: [{ seq: expected.seq }] });
  }
  await store.of(activityStore).purgeInterventions({ before: T0 + 3, limit: 9 });
  expect(await verifyActivity(store, kept)).toMatchObject({ verdict: 'whole', removed: kept });
  expect(await verifyActivity(store, other)).toMatchObject({ verdict: 'broken' });
});
