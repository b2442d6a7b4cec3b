import { afterEach, expect, it, vi } from 'vitest';
import { inTurns } from '../../src/model/turns.ts';

afterEach(() => vi.restoreAllMocks());

it('gives the event loop to others every few ms of work, and not before', async () => {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  let others = 0;
  const work = () => {
    setImmediate(() => {
      others += 1;
    });
  };
  const turn = inTurns();
  work();
  await turn();
  now += 4;
  await turn();
  expect(others).toBe(0);
  now += 1;
  await turn();
  expect(others).toBe(1);
  work();
  await turn();
  expect(others).toBe(1);
});

it('gives it to others also between those that wait at once', async () => {
  let now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  const turn = inTurns();
  let rounds = 0;
  let isDone = false;
  const count = () => {
    rounds += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const work = async () => {
    await turn();
    now += 5;
  };
  await Promise.all(Array.from({ length: 20 }, work));
  isDone = true;
  expect(rounds).toBeGreaterThanOrEqual(18);
});
