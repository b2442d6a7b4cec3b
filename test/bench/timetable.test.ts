import { describe, expect, it } from 'vitest';
import { timetable } from './timetable.ts';

describe('a timetable', () => {
  it('has a request for each part of the rate', () => {
    expect(timetable(3000, 5).count).toBe(15_000);
    expect(timetable(0.5, 4).count).toBe(2);
  });

  it.each([7, 100, 1000, 3000])('does not drift at %d requests a second', (rate) => {
    const { dueAt } = timetable(rate, 3600);
    expect(dueAt(0)).toBe(0);
    for (const second of [1, 60, 3600]) expect(dueAt(rate * second)).toBe(second * 1000);
  });

  it.each([3, 7, 1000, 3000, 12_345])('makes each request due at its time and none before, at %d a second', (rate) => {
    const { count, dueAt, dueUntil } = timetable(rate, 0.5);
    for (let index = 0; index < count; index += 1) {
      expect(dueUntil(dueAt(index))).toBe(index + 1);
      expect(dueUntil(dueAt(index) - 1e-6)).toBe(index);
    }
  });

  it('has nothing due before its start, and not more than all after its end', () => {
    const { dueUntil } = timetable(1000, 1);
    expect(dueUntil(-1)).toBe(0);
    expect(dueUntil(1e9)).toBe(1000);
  });
});
