import { expect, test } from 'vitest';
import { endAndPurgeBoth } from '../store/sub-run-samples.ts';
import { borrowSchema, openStore, runSql } from './schemas.ts';

test('retention leaves no row of a run, nor of the run that it started', async () => {
  const schema = borrowSchema();
  const store = await openStore({ schema });
  await endAndPurgeBoth(store);
  await store.close();
  const found = await runSql(
    `SELECT table_name AS name FROM information_schema.columns WHERE table_schema = $1 AND column_name = 'run_id'`,
    [schema],
  );
  const tables = found.map(({ name }) => String(name));
  const rows = await Promise.all(tables.map((name) => runSql(`SELECT '${name}' AS name FROM "${schema}"."${name}"`)));
  expect(rows.flat()).toEqual([]);
  expect(tables).toContain('sub_runs');
});
