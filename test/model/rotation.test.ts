import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Rotation, type Waiter } from '../../src/model/rotation.ts';

const waiter = (key: string, more: Partial<Waiter> = {}): Waiter => ({
  key,
  running: 0,
  limit: Number.POSITIVE_INFINITY,
  since: 0,
  ...more,
});

/** Gives turns one at a time, each ended before the next, until no one waits. */
function giveAll(rotation: Rotation, waiting: Waiter[]): string[] {
  const given: string[] = [];
  for (let next = rotation.next(waiting); next !== undefined; next = rotation.next(waiting)) {
    rotation.give(next.key);
    waiting.splice(waiting.indexOf(next), 1);
    given.push(next.key);
  }
  return given;
}

describe('the next turn', () => {
  it('is for the key with the fewest turns under way, whoever waits the longest', () => {
    const rotation = new Rotation();
    const next = rotation.next([waiter('busy', { running: 2, since: 1 }), waiter('quiet', { running: 1, since: 2 })]);
    expect(next?.key).toBe('quiet');
  });

  it('is among equals for the key whose last turn is longest ago', () => {
    const waiting = ['a', 'a', 'a', 'b', 'b', 'c'].map((key, since) => waiter(key, { since }));
    expect(giveAll(new Rotation(), waiting)).toEqual(['a', 'b', 'c', 'a', 'b', 'a']);
  });

  it('is for the one of a key that waits the longest', () => {
    const later = waiter('a', { since: 2 });
    const earlier = waiter('a', { since: 1 });
    expect(new Rotation().next([later, earlier])).toBe(earlier);
  });

  it('is for a key that keeps waiting before those that come and go', () => {
    const rotation = new Rotation();
    const given = ['one', 'two', 'three', 'four'].map((key) => {
      const next = rotation.next([waiter('stays', { since: 1 }), waiter(key)]);
      rotation.give(next?.key ?? '');
      return next?.key;
    });
    expect(given).toEqual(['one', 'stays', 'three', 'stays']);
  });

  it('is for a new key before the one that had the last turn', () => {
    const rotation = new Rotation();
    rotation.give('busy');
    expect(rotation.next([waiter('busy', { since: 1 }), waiter('new', { since: 2 })])?.key).toBe('new');
  });
});

const keys = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h');

describe('whatever waits', () => {
  const waiters = fc.array(
    fc.record({ key: keys, running: fc.nat(4), limit: fc.integer({ min: 1, max: 4 }), since: fc.nat(9) }),
  );

  it('a turn is given whenever one is below its limit, and never beyond a limit', () => {
    fc.assert(
      fc.property(fc.array(keys), waiters, (before, waiting) => {
        const rotation = new Rotation();
        for (const key of before) rotation.give(key);
        const below = waiting.filter(({ running, limit }) => running < limit);
        const next = rotation.next(waiting);
        expect(next === undefined ? below : below.includes(next)).toEqual(next === undefined ? [] : true);
        expect(rotation.order(waiting)).toHaveLength(below.length);
        expect(rotation.order(waiting)[0]).toBe(next);
      }),
    );
  });

  it('keys that always wait share what is given: none has two turns more under way than another', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 40 }), (count, turns) => {
        const rotation = new Rotation();
        const running = new Map(Array.from({ length: count }, (_, n) => [`key ${n}`, 0]));
        for (let given = 0; given < turns; given += 1) {
          const next = rotation.next([...running].map(([key, own]) => waiter(key, { running: own })));
          if (next === undefined) throw new Error('nothing limits them');
          rotation.give(next.key);
          running.set(next.key, next.running + 1);
        }
        expect(Math.max(...running.values()) - Math.min(...running.values())).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('none waits for more turns than there were other keys when it began to wait', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.nat(30), { maxLength: 3 }), { maxLength: 60 }), (arrivals) => {
        const rotation = new Rotation();
        const known = new Set<string>();
        const waiting = new Map<string, { since: number; turns: number; most: number }>();
        for (const [now, coming] of arrivals.entries()) {
          for (const key of coming.map(String)) known.add(key);
          for (const key of coming.map(String)) {
            if (!waiting.has(key)) waiting.set(key, { since: now, turns: 0, most: known.size - 1 });
          }
          const next = rotation.next([...waiting].map(([key, { since }]) => waiter(key, { since })));
          if (next === undefined) continue;
          rotation.give(next.key);
          waiting.delete(next.key);
          for (const each of waiting.values()) {
            each.turns += 1;
            expect(each.turns).toBeLessThanOrEqual(each.most);
          }
        }
      }),
    );
  });
});

it('forgets the keys whose turns were longest ago, of ten thousand', () => {
  const rotation = new Rotation();
  rotation.give('first');
  rotation.give('second');
  for (let n = 0; n < 9_999; n += 1) rotation.give(`key ${n}`);
  // `first` is forgotten and counts as new; `second` is remembered and had its turn.
  expect(rotation.next([waiter('first', { since: 1 }), waiter('second', { since: 2 })])?.key).toBe('second');
});
