import { inject, test } from 'vitest';
import { torture } from './torture.ts';

test('two replicas that start on an empty database at once share the work', { timeout: 60_000 }, async () => {
  await torture({ url: inject('postgresUrl'), seconds: 2, hurt: async () => {} });
});
