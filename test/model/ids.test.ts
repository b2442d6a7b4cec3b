import { validate, version } from 'uuid';
import { describe, expect, it } from 'vitest';
import { createIdSource } from '../../src/model/ids.ts';

describe('ids', () => {
  it('are UUIDs of version 7 that tell the time', () => {
    const id = createIdSource(() => 0x0123456789ab)();
    expect(validate(id)).toBe(true);
    expect(version(id)).toBe(7);
    expect(id.startsWith('01234567-89ab-7')).toBe(true);
  });

  it('rise, whatever the clock does, and none comes twice', () => {
    const times = [5, 5, 5, 4, 3, 9, 9, 1, 10];
    let calls = 0;
    const next = createIdSource(() => times[Math.floor(calls++ / 400) % times.length] ?? 0);
    const ids = Array.from({ length: 3600 }, next);
    expect(new Set(ids).size).toBe(ids.length);
    expect([...ids].sort()).toEqual(ids);
  });
});
