import { expect, it } from 'vitest';
import { serially } from '../../src/model/serially.ts';

it('does work one after the other, also after work that failed', async () => {
  const turns = serially();
  const done: string[] = [];
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const first = turns.run(async () => {
    await gate;
    done.push('first');
    throw new Error('the first failed');
  });
  const second = turns.run(async () => done.push('second'));
  expect(done).toEqual([]);
  open();
  await expect(first).rejects.toThrow('the first failed');
  expect(await second).toBe(2);
  await turns.ended();
  expect(done).toEqual(['first', 'second']);
});
