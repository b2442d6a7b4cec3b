import { expect, it } from 'vitest';
import { Tally } from '../../../src/features/rehearsal/tally.ts';

const ABOUT = { flowId: 'f', name: 'orders', revision: 1, isStopped: false };

const request = (path: string, value: string) => ({
  kind: 'request' as const,
  at: 'charge',
  changes: [{ path, before: value, after: `${value}!` }],
});

function tallied(paths: readonly string[], value: string, characters: number) {
  const tally = new Tally({ characters });
  for (const [index, path] of paths.entries()) {
    tally.add({ deliveryId: `d${index}`, receivedAt: 0, runId: null, differences: [request(path, value)] });
  }
  return tally.result(ABOUT);
}

it('keeps the beginning of large values and of long keys', () => {
  const found = tallied(['k'.repeat(100_000)], 'x'.repeat(1_000_000), 1_000_000);
  expect(found.differing).toBe(1);
  expect(JSON.stringify(found).length).toBeLessThan(10_000);
});

it('counts every delivery, and keeps examples while there is room for them', () => {
  const paths = Array.from({ length: 500 }, (_, index) => `body.key${index}`);
  const found = tallied(paths, 'x'.repeat(1000), 20_000);
  expect(found).toMatchObject({ deliveries: 500, differing: 500 });
  expect(found.groups).toHaveLength(500);
  expect(found.groups.filter(({ examples }) => examples.length > 0).length).toBeLessThan(20);
});
