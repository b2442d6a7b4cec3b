import { expect, it } from 'vitest';
import { readReconcileState, stateOf, widened } from '../../src/reconcile/state.ts';

it('keeps a gap whose causes have the names of what every object has', () => {
  const found = { sentAt: 1, at: 2 };
  const gap = ['constructor', 'toString', 'constructor', '__proto__'].reduce<Parameters<typeof widened>[0]>(
    (widest, cause) => widened(widest, { ...found, cause }),
    null,
  );
  const state = { ...stateOf(null, { log: 'a', now: 0 }), settledTo: 7, gap };
  const stored = JSON.parse(JSON.stringify(state));
  expect(stateOf(stored, { log: 'a', now: 9 })).toMatchObject({ since: 0, settledTo: 7 });
  expect(readReconcileState(stored)?.gap).toMatchObject({ count: 4, causes: { constructor: 2, toString: 1 } });
});
