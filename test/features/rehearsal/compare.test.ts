import { expect, it } from 'vitest';
import { compareRuns } from '../../../src/features/rehearsal/compare.ts';
import { delivered, loaded, simulatorOf } from './flows.ts';

it('says of a new step whose answer is not known that it is reached', async () => {
  const call = { type: 'HttpRequest', inputs: { url: 'https://a.example/' } };
  const start = { ...delivered({}), answer: () => undefined };
  const [before, after] = [
    await simulatorOf(loaded({ a: { type: 'NoOp' } })),
    await simulatorOf(loaded({ a: { type: 'NoOp' }, call })),
  ];
  const found = compareRuns(await before.run(start), await after.run(start));
  expect(found).toEqual([
    { kind: 'step', at: 'call', changes: [{ path: '', before: 'not reached', after: 'not known' }] },
  ]);
  await Promise.all([before.close(), after.close()]);
});
