import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { dropSchema, takeSchema } from '../postgres/schemas.ts';
import { ACTIVE_CONTENT } from './active-content.ts';
import type { Attack } from './attack.ts';
import { COST } from './cost.ts';
import { HARMS } from './lost-database.ts';
import { ONE_RUN } from './one-run.ts';
import { github, type OwnTarget, startTarget } from './target.ts';
import { WHO_GETS_IN } from './who-gets-in.ts';

// One row for each attack made on the built service over HTTP: add new ones, remove none. The rows of a database share
// one service, so that effects of one show in the next.

const DATABASES: Readonly<Record<string, () => Readonly<Record<string, string>>>> = {
  SQLite: () => ({}),
  PostgreSQL: () => ({
    SLUICE_DATABASE_URL: inject('postgresUrl'),
    SLUICE_DATABASE_SCHEMA: takeSchema(),
    SLUICE_REPLICA_NAME: 'sluice',
    SLUICE_DRAIN_SECONDS: '0',
  }),
};

describe.each(Object.entries(DATABASES))('on %s', (_name, variables) => {
  let target: OwnTarget;
  const database = variables();
  beforeAll(async () => {
    target = await startTarget(database);
  });
  afterAll(async () => {
    await target.close();
    const { SLUICE_DATABASE_SCHEMA: schema } = database;
    if (schema !== undefined) await dropSchema(schema);
  });

  describe.each([
    ['one run', ONE_RUN],
    ['no input costs more than linear time, no stranger stops others', COST],
    ['who gets in', WHO_GETS_IN],
    ['what others wrote is never active content', ACTIVE_CONTENT],
  ] as const)('%s', (_promise, attacks: readonly Attack[]) => {
    test.each(attacks)('$rule: an attacker $attack', async ({ run }) => {
      await run(target);
      expect(await target.send('push', github())).toMatchObject({ status: 200 });
    });
  });
});

describe('a database that is harmed', () => {
  test.each(HARMS)('$rule: somebody $attack', ({ run }) => run());
});
