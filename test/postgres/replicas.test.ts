import { inject, test } from 'vitest';
import { workerSchemaOf } from '../../src/store/postgres/sql.ts';
import { runSql } from './schemas.ts';
import { killInTurn, torture } from './torture.ts';

const SECONDS = 4;

test('two replicas that start on an empty database at once share the work', { timeout: 60_000 }, async () => {
  await torture({ url: inject('postgresUrl'), seconds: 2, hurt: async () => {} });
});

test('a replica that is killed loses nothing and doubles nothing', { timeout: 90_000 }, async () => {
  await torture({ url: inject('postgresUrl'), seconds: SECONDS, hurt: killInTurn() });
});

test('wake-ups that are all deleted again and again cost no run', { timeout: 60_000 }, async () => {
  const url = inject('postgresUrl');
  await torture({
    url,
    seconds: SECONDS,
    async hurt({ schema }) {
      await runSql(`DELETE FROM "${workerSchemaOf(schema)}"._private_jobs`, [], url);
    },
  });
});
