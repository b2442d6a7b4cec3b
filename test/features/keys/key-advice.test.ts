import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { adviseOn } from '../../../src/features/keys/key-advice.ts';
import type { KeyFigures } from '../../../src/features/keys/store.ts';

type KeyPairFigures = Parameters<typeof adviseOn>[0];

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 10, 20);
const ago = (days: number) => NOW - days * DAY;

const figures = (keyName: string, change: Partial<KeyFigures>): KeyFigures => ({
  ...{
    flowId: 'flow',
    triggerKey: 'shop',
    keyName,
    role: null,
    roleSince: null,
    firstNotedAt: null,
    notedAt: NOW,
    count: 0,
  },
  ...{ recent: 0, lastAt: null, lastId: null, othersSince: 0 },
  ...change,
});
const current = (change: Partial<KeyFigures> = {}) =>
  figures('new', { role: 'current', roleSince: ago(10), lastAt: ago(0), ...change });
const previous = (change: Partial<KeyFigures> = {}) =>
  figures('old', { role: 'previous', roleSince: ago(10), lastAt: ago(10) - 1, othersSince: 1204, ...change });
const pair = (change: Partial<KeyPairFigures> = {}): KeyPairFigures => ({
  ...{ now: NOW, isSame: false, current: current(), previous: previous(), others: [] },
  ...change,
});

describe('the advice on a previous key', () => {
  it.each<[string, Partial<KeyPairFigures>, object]>([
    [
      'may go if it was never used in its role',
      {},
      { kind: 'may_go', unusedSince: ago(10), lastAt: null, deliveries: 1204 },
    ],
    [
      'may go seven days after its last use',
      { previous: previous({ lastAt: ago(7) }) },
      { kind: 'may_go', lastAt: ago(7) },
    ],
    ['is in use until then', { previous: previous({ lastAt: ago(7) + 1 }) }, { kind: 'in_use', lastAt: ago(7) + 1 }],
    [
      'tells that the publisher has not switched',
      { previous: previous({ lastAt: ago(1) }), current: current({ lastAt: null }) },
      { kind: 'not_switched', lastAt: ago(1) },
    ],
    [
      'tells so too where the current key was used before it had that role',
      { previous: previous({ lastAt: ago(1) }), current: current({ lastAt: ago(11) }) },
      { kind: 'not_switched' },
    ],
    [
      'is to wait without any delivery',
      { current: undefined, previous: previous({ lastAt: null, othersSince: 0 }) },
      { kind: 'wait' },
    ],
    ['is to wait where nothing came since', { current: current({ lastAt: ago(11) }) }, { kind: 'wait' }],
    [
      'is to wait where its role was not noted yet',
      { previous: previous({ role: 'current' }) },
      { kind: 'wait', unusedSince: null },
    ],
    ['is to wait where it is not known at all', { previous: undefined }, { kind: 'wait', unusedSince: null }],
    [
      'is to wait where the clock was set ahead by more than a day since it was noted',
      { now: NOW + 7 * DAY, previous: previous({ roleSince: ago(1), lastAt: null }) },
      { kind: 'wait', unusedSince: null },
    ],
    ['goes by what was noted in the last day', { now: NOW + DAY }, { kind: 'may_go' }],
    [
      'counts a use before the rotation for nothing',
      { previous: previous({ roleSince: ago(1) }) },
      { kind: 'wait', unusedSince: ago(1) },
    ],
    ['takes a use in the future for a use', { previous: previous({ lastAt: NOW + DAY }) }, { kind: 'in_use' }],
    [
      'tells that another process has other keys',
      { others: [{ lastAt: ago(2) }] },
      { kind: 'keys_differ', lastAt: ago(2) },
    ],
    ['minds no key that went before', { others: [{ lastAt: ago(10) }, { lastAt: null }] }, { kind: 'may_go' }],
    ['may go at once if it is the current one', { isSame: true, previous: undefined }, { kind: 'same_key' }],
  ])('%s', (_, change, expected) => {
    expect(adviseOn(pair(change))).toMatchObject(expected);
  });

  const time = fc.option(fc.integer({ min: -20, max: 3 }).map((days) => NOW + days * DAY));
  const anyKey = fc.record({
    role: fc.constantFrom('current' as const, 'previous' as const, null),
    roleSince: time,
    lastAt: time,
    othersSince: fc.nat({ max: 2 }),
  });
  const anyPair = fc.record({
    current: anyKey,
    previous: anyKey,
    others: fc.array(fc.record({ lastAt: time }), { maxLength: 2 }),
  });

  it('lets a key go only if it was idle for seven days while the current key worked, and nothing says otherwise', () => {
    fc.assert(
      fc.property(anyPair, (given) => {
        const judged = pair({ ...given, current: current(given.current), previous: previous(given.previous) });
        const advice = adviseOn(judged);
        if (advice.kind !== 'may_go') return;
        const since = Math.max(given.previous.roleSince ?? Number.NaN, given.previous.lastAt ?? 0);
        expect(advice.unusedSince).toBe(since);
        expect(since).toBeLessThanOrEqual(ago(7));
        expect(given.current.lastAt).toBeGreaterThan(since);
        expect(advice.deliveries).toBeGreaterThan(0);
        for (const { lastAt } of given.others) expect(lastAt ?? 0).toBeLessThanOrEqual(since);
        // It may still go later if nothing happens.
        expect(adviseOn({ ...judged, now: NOW + DAY }).kind).toBe('may_go');
        expect(adviseOn({ ...judged, now: NOW + DAY + 1 }).kind).toBe('wait');
      }),
    );
  });

  it('is no advice at all without a delivery that either key verified', () => {
    fc.assert(
      fc.property(anyPair, (given) => {
        const none = { lastAt: null, othersSince: 0 };
        const judged = {
          current: current({ ...given.current, ...none }),
          previous: previous({ ...given.previous, ...none }),
        };
        expect(adviseOn(pair({ ...given, ...judged })).kind).toBe('wait');
      }),
    );
  });
});
