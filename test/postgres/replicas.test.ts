import { inject, test } from 'vitest';
import { torture } from './torture.ts';

const SECONDS = 8;

test('two replicas that start on an empty database at once share the work', { timeout: 60_000 }, async () => {
  await torture({ url: inject('postgresUrl'), seconds: 2, hurt: async () => {} });
});

test('a replica that is killed loses nothing and doubles nothing', { timeout: 90_000 }, async () => {
  let turn = 0;
  await torture({
    url: inject('postgresUrl'),
    seconds: SECONDS,
    async hurt({ replicas }) {
      turn += 1;
      const replica = replicas[turn % replicas.length];
      await replica?.stop('SIGKILL');
      await replica?.start();
    },
  });
});
