import { expect, test, vi } from 'vitest';
import { eventually, until } from './eventually.ts';

const SHORT = { seconds: 0.05, because: 'it is this that is tested' };

test('what is waited for is yielded as soon as it is there', async () => {
  let count = 0;
  expect(
    await eventually(
      () => ++count,
      (answer) => answer === 3,
    ),
  ).toBe(3);
});

test('what does not come is told with its condition, the last answer, and why so long', async () => {
  const runs = () => [{ id: 'a run', status: 'Running' }];
  const waiting = eventually(runs, ([run]) => run?.status === 'Succeeded', SHORT);
  await expect(waiting).rejects.toThrow(
    /waited 0.05 s \(it is this that is tested\)[\s\S]*run\?\.status === "Succeeded"[\s\S]*last answer: \[ { id: 'a run', status: 'Running' } \]$/,
  );
});

test('an answer that does not come is not waited for without end, and the one before it is told', async () => {
  let asked = 0;
  const ask = () => (asked++ === 0 ? 'the first' : new Promise<string>(() => {}));
  await expect(eventually(ask, () => false, SHORT)).rejects.toThrow(/\(another was under way\): the first$/);
});

test('a question that fails is not asked again', async () => {
  const ask = vi.fn(() => Promise.reject(new Error('answered 500')));
  await expect(eventually(ask, () => true)).rejects.toThrow('answered 500');
  expect(ask).toHaveBeenCalledTimes(1);
});

test('what happens in this process is asked for at each turn', async () => {
  let turns = 0;
  expect(
    await until(
      () => turns++,
      (count) => count === 100,
    ),
  ).toBe(100);
  let isDone = false;
  setImmediate(() => {
    isDone = true;
  });
  expect(await until(() => isDone)).toBe(true);
});

test('of a long answer both ends are told', async () => {
  const text = `begin${'x'.repeat(100_000)}end`;
  const error = await eventually(
    () => text,
    () => false,
    SHORT,
  ).catch((thrown: Error) => thrown.message);
  expect(error).toMatch(/: beginx+\n…\nx+end$/);
});

test('time that a test has faked is not waited for', async () => {
  vi.useFakeTimers();
  try {
    await expect(
      eventually(
        () => 1,
        () => false,
        SHORT,
      ),
    ).rejects.toThrow('waited 0.05 s');
  } finally {
    vi.useRealTimers();
  }
});
