import { expect, inject, onTestFinished, test } from 'vitest';
import { examineStore, inspectStore } from '../../src/store/offline.ts';
import { acceptanceOf, aNonce, id, T0 } from '../store/samples.ts';
import { newSchema, openStore, runSql } from './schemas.ts';

const DAY = 86_400_000;

test('a schema is looked at while a service uses it: damage, sizes, what waits and what is deleted next', async () => {
  const schema = newSchema();
  const store = await openStore({ schema });
  onTestFinished(() => store.close());
  await store.accept(acceptanceOf(1, { nonce: aNonce({ expiresAt: T0 + 1 }) }));
  const database = { kind: 'postgres', directUrl: inject('postgresUrl'), schema } as const;
  const before = { nonces: T0 + 2, runs: T0 - DAY, deliveries: T0 + DAY, activity: null };
  const examined = await examineStore(database, { before, isQuick: false });
  expect(examined).toMatchObject({
    damage: [],
    walBytes: null,
    contents: {
      oldestRun: { id: id(1001), startedAt: T0 },
      oldestHeld: null,
      oldestNonceEnd: T0 + 1,
      due: { nonces: 1, runs: 0, deliveries: 1, activity: 0 },
    },
  });
  expect(examined.tables?.map(({ name }) => name)).toContain('runs');
  expect(examined.fileBytes).toBeGreaterThan(0);

  await runSql(`DROP TABLE "${schema}".nonce_headers`);
  const damaged = await examineStore(database, { before, isQuick: false });
  expect(damaged.damage).toEqual(['the table nonce_headers is missing']);
  expect((await examineStore(database, { before, isQuick: true })).damage).toBeNull();

  await runSql(`DROP TABLE "${schema}".nonces CASCADE`);
  const quick = await examineStore(database, { before, isQuick: true });
  expect(quick.schema?.lacks).toContain('the table nonces is missing');
  expect(quick.contents).toBeNull();
});

test('a database that does not answer is named without its password', async () => {
  const database = { kind: 'postgres', directUrl: 'postgres://me:s3cr3t@127.0.0.1:9/x', schema: 'sluice' } as const;
  const before = { nonces: null, runs: null, deliveries: null, activity: null };
  const named = 'the database postgres://***@127.0.0.1:9/x cannot be read: connect ECONNREFUSED';
  await expect(examineStore(database, { before, isQuick: true })).rejects.toThrow(named);
  await expect(inspectStore(database)).rejects.toThrow(named);
});

test('a schema that no service has written to is not looked at', async () => {
  const database = { kind: 'postgres', directUrl: inject('postgresUrl'), schema: newSchema() } as const;
  const before = { nonces: null, runs: null, deliveries: null, activity: null };
  await expect(examineStore(database, { before, isQuick: true })).rejects.toThrow('no service has written to it yet');
});
