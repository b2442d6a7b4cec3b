import { expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { openCircle } from '../store/circles.ts';
import { finish, id } from '../store/samples.ts';
import { asking } from '../store/sub-run-samples.ts';
import { borrowSchema, openReplicas } from './schemas.ts';

test('of two replicas that would close a circle of waits together, one refuses', async () => {
  const { stores } = await openReplicas(['one', 'two'], borrowSchema());
  const [one, two] = stores as [Store, Store];
  for (let round = 0; round < 15; round += 1) {
    const from = 1 + 10 * round;
    const circle = await openCircle(one, 2, from, round);
    const first = await circle.claimOf(id(from));
    const second = await circle.claimOf(id(from + 1));
    const results = await Promise.all([
      finish(one, first, asking(circle.flows[1], { body: { total: circle.keyOf(1) } })),
      finish(two, second, asking(circle.flows[0], { body: { total: circle.keyOf(0) } })),
    ]);
    const kinds = results.map((advance) => advance?.subRun?.result.kind).sort();
    expect(kinds, `round ${round}`).toEqual(['failed', 'waiting']);
  }
});
