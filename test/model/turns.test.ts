import { expect, it } from 'vitest';
import { createTurns } from '../../src/model/turns.ts';

it('does work one after the other, also after work that failed', async () => {
  const turns = createTurns();
  const done: string[] = [];
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const first = turns.take(async () => {
    await gate;
    done.push('first');
    throw new Error('the first failed');
  });
  const second = turns.take(async () => done.push('second'));
  expect(done).toEqual([]);
  open();
  await expect(first).rejects.toThrow('the first failed');
  expect(await second).toBe(2);
  await turns.ended();
  expect(done).toEqual(['first', 'second']);
});
