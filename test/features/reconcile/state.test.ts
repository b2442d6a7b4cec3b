import { expect, it } from 'vitest';
import { readReconcileState, stateOf, widened } from '../../../src/features/reconcile/state.ts';

it('keeps a gap whose causes have the names of what every object has', () => {
  const found = { sentAt: 1, at: 2, became: 'accepted' as const };
  const gap = ['constructor', 'toString', 'constructor', '__proto__'].reduce<Parameters<typeof widened>[0]>(
    (widest, cause) => widened(widest, { ...found, cause }),
    null,
  );
  const state = { ...stateOf(null, { log: 'a', since: 0, now: 0 }), settledTo: 7, gap };
  const stored = JSON.parse(JSON.stringify(state));
  expect(stateOf(stored, { log: 'a', since: 9, now: 9 })).toMatchObject({ since: 0, settledTo: 7 });
  expect(readReconcileState(stored)?.gap).toMatchObject({ count: 4, causes: { constructor: 2, toString: 1 } });
});

it('asks for what is sent from now on where a clock was ahead when it began, and for all since it did where that was later', () => {
  const begun = stateOf(null, { log: 'a', since: 900, now: 900 });
  expect(stateOf(JSON.parse(JSON.stringify(begun)), { log: 'a', since: 5, now: 10 })).toMatchObject({
    since: 10,
    settledTo: null,
  });
  const looked = { ...begun, since: 3, settledTo: 900 };
  expect(stateOf(JSON.parse(JSON.stringify(looked)), { log: 'a', since: 5, now: 10 })).toMatchObject({
    since: 3,
    settledTo: null,
  });
});
