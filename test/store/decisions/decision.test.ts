import { describe, expect, it } from 'vitest';
import {
  type Answers,
  type Asks,
  asking,
  type Decision,
  decide,
  decideNow,
} from '../../../src/store/decisions/decision.ts';

interface Reads {
  find(key: string): number | undefined;
  sum(one: number, other: number): number;
}

const values = new Map([
  ['a', 1],
  ['b', 2],
]);
const atOnce: Answers<Reads> = { find: (key) => values.get(key), sum: (one, other) => one + other };
const later: Answers<Reads> = { find: async (key) => values.get(key), sum: async (one, other) => one + other };

function* numberOf(rows: Asks<Reads>, key: string): Decision<number> {
  return (yield* rows.find(key)) ?? 0;
}

function* sumOf(rows: Asks<Reads>, keys: readonly string[]): Decision<number> {
  let sum = 0;
  for (const key of keys) sum = yield* rows.sum(sum, yield* numberOf(rows, key));
  return sum;
}

describe('a decision', () => {
  it('comes to the same over rows that answer at once and over rows that answer later', async () => {
    const now = decideNow(sumOf(asking<Reads>(atOnce), ['a', 'b', 'missing']));
    expect(now).toBe(3);
    expect(await decide(sumOf(asking<Reads>(atOnce), ['a', 'b', 'missing']))).toBe(now);
    expect(await decide(sumOf(asking<Reads>(later), ['a', 'b', 'missing']))).toBe(now);
  });

  it('waits only for what is not answered at once', () => {
    const decision = sumOf(asking<Reads>({ ...atOnce, sum: later.sum }), ['a', 'b']);
    let waits = 0;
    for (let step = decision.next(); step.done !== true; step = decision.next(waits)) waits += 1;
    expect(waits).toBe(2);
  });

  it('rejects with the question that does', async () => {
    const full = new Error('disk full');
    const rows = asking<Reads>({ ...later, find: async () => Promise.reject(full) });
    await expect(decide(sumOf(rows, ['a']))).rejects.toBe(full);
  });

  it('throws what a question throws', () => {
    const rows = asking<Reads>({
      ...atOnce,
      find() {
        throw new Error('disk full');
      },
    });
    expect(() => decideNow(sumOf(rows, ['a']))).toThrow('disk full');
  });

  it('is refused at once where an answer would come later', () => {
    expect(() => decideNow(sumOf(asking<Reads>(later), ['a']))).toThrow('not answered at once');
  });
});
