import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Arrival,
  bytesOf,
  dueAtOf,
  type Group,
  joinGroup,
  openGroup,
} from '../../../src/features/coalesce/group.ts';

const KIB = 1024;
const limits = { quietMs: 2000, maxMs: 10_000, collect: 4 };
const arrival = (at: number, change: Partial<Arrival> = {}): Arrival => ({ ...limits, at, bytes: 10, ...change });
const of = { runId: 'first', revision: 3, isHeld: false };
const opened = (change: Partial<Arrival> = {}) => openGroup(arrival(0, change), of);

/** Adds deliveries at these times; undefined once one can no longer join. */
function joinAll(times: readonly number[], change: Partial<Arrival> = {}): Group | undefined {
  return times.reduce<Group | undefined>((group, at) => group && joinGroup(group, arrival(at, change), of), opened());
}

describe('a group of deliveries', () => {
  test('starts after the silence that follows its newest delivery', () => {
    expect(opened()).toEqual({ ...of, deliveries: 1, bytes: 10, dueAt: 2000, untilAt: 10_000 });
    expect(joinAll([1500])).toMatchObject({ deliveries: 2, bytes: 20, dueAt: 3500, untilAt: 10_000 });
  });

  test('starts at the latest so long after its first delivery', () => {
    const often = arrival(9500, { collect: 100 });
    const group = joinAll([1900, 3800], { collect: 100 });
    const late = [5700, 7600].reduce<Group | undefined>(
      (before, at) => before && joinGroup(before, arrival(at, { collect: 100 }), of),
      group,
    );
    expect(late && joinGroup(late, often, of)).toMatchObject({ dueAt: 10_000 });
    expect(opened({ maxMs: 500 })).toMatchObject({ dueAt: 500, untilAt: 500 });
  });

  test('starts at once with as many as it collects, and takes no more', () => {
    const full = joinAll([10, 20, 30]);
    expect(full).toMatchObject({ deliveries: 4, dueAt: 30 });
    // A delivery that arrived before the last one may be stored after it.
    expect(full && joinGroup(full, arrival(25), of)).toBeUndefined();
    expect(dueAtOf(arrival(7, { collect: 1 }))).toBe(7);
  });

  test('starts at once with 1 MiB, which the last delivery may exceed', () => {
    const large = joinAll([10], { bytes: 1024 * KIB });
    expect(large).toMatchObject({ bytes: 1024 * KIB + 10, dueAt: 10 });
    expect(large && joinGroup(large, arrival(5), of)).toBeUndefined();
    expect(dueAtOf(arrival(0, { bytes: 1024 * KIB }))).toBe(0);
    expect(dueAtOf(arrival(0, { bytes: 1024 * KIB - 1 }))).toBe(2000);
  });

  test('is joined only before it starts', () => {
    expect(joinAll([1999])).toBeDefined();
    expect(joinAll([2000])).toBeUndefined();
  });

  test('is not joined by a delivery of another revision, nor by one that is held where it is not', () => {
    expect(joinGroup(opened(), arrival(1), { ...of, revision: 4 })).toBeUndefined();
    expect(joinGroup(opened(), arrival(1), { ...of, isHeld: true })).toBeUndefined();
  });

  test('counts headers too: bodies may be empty', () => {
    expect(bytesOf(new Uint8Array(3), { a: 'é' })).toBe(3 + '{"a":"é"}'.length + 1);
  });

  test('whatever the times: it never starts sooner than before, later than it may, or with more than it collects', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({ at: fc.integer({ min: -3000, max: 15_000 }), bytes: fc.integer({ min: 0, max: 400 * KIB }) }),
        ),
        (deliveries) => {
          let group = opened();
          for (const { at, bytes } of deliveries) {
            const joined = joinGroup(group, arrival(at, { bytes }), of);
            if (joined === undefined) continue;
            const isFull = joined.deliveries === limits.collect || joined.bytes >= 1024 * KIB;
            expect(joined.dueAt).toBeLessThanOrEqual(group.untilAt);
            expect(isFull ? joined.dueAt === at : joined.dueAt >= group.dueAt).toBe(true);
            expect(joined).toMatchObject({
              deliveries: group.deliveries + 1,
              bytes: group.bytes + bytes,
              runId: 'first',
            });
            group = joined;
          }
          expect(group.deliveries).toBeLessThanOrEqual(limits.collect);
          expect(group.bytes).toBeLessThan(1024 * KIB + 400 * KIB);
        },
      ),
    );
  });
});
