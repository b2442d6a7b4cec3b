import { expect, it, vi } from 'vitest';
import { createAlarm } from '../../src/flows/alarm.ts';
import { fakeClock, recordingLogger, standingTimers } from './fixture.ts';

standingTimers();

/** An alarm whose questions the test answers. */
function open({ isFit, canAsk }: Record<string, () => boolean> = {}) {
  const clock = fakeClock();
  const { logger, lines } = recordingLogger();
  const asked: { answer(): void; fail(): void }[] = [];
  const ask = () => {
    if (canAsk?.() === false) return undefined;
    return new Promise<void>((answer, reject) => asked.push({ answer, fail: () => reject(new Error('is away')) }));
  };
  const waitMs = (failures: number) => failures * 100;
  const alarm = createAlarm({ clock, logger, isFit: isFit ?? (() => true), ask, waitMs, failure: 'could not ask' });
  const pass = (ms: number) => {
    clock.pass(ms);
    vi.advanceTimersByTime(ms);
  };
  const settled = () => new Promise(setImmediate);
  const answer = async () => {
    asked.at(-1)?.answer();
    await settled();
  };
  return { clock, alarm, asked, lines, pass, settled, answer };
}

it('asks at the start, when something falls due, and at least once a minute', async () => {
  const { clock, alarm, asked, pass, answer } = open();
  alarm.start();
  expect(asked).toHaveLength(1);
  await answer();
  alarm.expect(clock.now() + 5_000);
  pass(4_999);
  expect(asked).toHaveLength(1);
  pass(1);
  expect(asked).toHaveLength(2);
  await answer();
  pass(59_999);
  expect(asked).toHaveLength(2);
  pass(1);
  expect(asked).toHaveLength(3);
});

it('asks one question at a time, and again for what fell due meanwhile', async () => {
  const { alarm, asked, answer } = open();
  alarm.start();
  alarm.expect(0);
  alarm.expect(0);
  expect(asked).toHaveLength(1);
  await answer();
  expect(asked).toHaveLength(2);
  await answer();
  expect(asked).toHaveLength(2);
});

it('waits longer after each failure, whatever falls due, and not after an answer', async () => {
  const { alarm, asked, lines, pass, settled, answer } = open();
  alarm.start();
  for (const waitMs of [100, 200]) {
    const count = asked.length;
    asked.at(-1)?.fail();
    await settled();
    expect(alarm.isPaused).toBe(true);
    alarm.expect(0);
    pass(waitMs - 1);
    expect(asked).toHaveLength(count);
    pass(1);
    expect(asked).toHaveLength(count + 1);
  }
  expect(lines.map(({ msg, waitMs }) => [msg, waitMs])).toEqual([
    ['could not ask', 100],
    ['could not ask', 200],
  ]);
  await answer();
  expect(alarm.isPaused).toBe(false);
  alarm.expect(0);
  expect(asked).toHaveLength(4);
});

it('asks nothing while the process is unfit, or where it cannot, and then at once', async () => {
  let isFit = false;
  let canAsk = false;
  const { alarm, asked, pass } = open({ isFit: () => isFit, canAsk: () => canAsk });
  alarm.start();
  pass(10_000);
  isFit = true;
  pass(1_000);
  expect(asked).toHaveLength(0);
  canAsk = true;
  alarm.ring();
  expect(asked).toHaveLength(1);
});

it('settles with the question under way, or with one for what is due, and rejects as that does', async () => {
  const { alarm, asked, answer } = open();
  const first = alarm.settle();
  expect(asked).toHaveLength(1);
  asked[0]?.fail();
  await expect(first).rejects.toThrow('is away');
  const second = alarm.settle();
  await answer();
  await second;
  await alarm.settle();
  expect(asked).toHaveLength(2);
});

it('stops when the last question is answered or has failed, and asks no more', async () => {
  const { alarm, asked } = open();
  alarm.start();
  let isStopped = false;
  const stopped = alarm.stop().then(() => {
    isStopped = true;
  });
  expect(isStopped).toBe(false);
  asked[0]?.fail();
  await stopped;
  alarm.expect(0);
  expect(asked).toHaveLength(1);
  expect(vi.getTimerCount()).toBe(0);
});
