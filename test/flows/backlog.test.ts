import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { createBacklog } from '../../src/flows/backlog.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { fakeClock, recordingLogger, until } from './fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function open(maxDueSteps: number) {
  const clock = fakeClock();
  const { logger, lines } = recordingLogger();
  const metrics = createMetrics();
  const intake = { setFull: vi.fn() };
  const measured = vi.fn(async () => ({ dueSteps: 0, oldestDueAt: null as number | null }));
  const backlog = createBacklog({ store: { measureBacklog: measured }, intake, clock, logger, metrics, maxDueSteps });
  const look = async () => {
    await until(() => vi.getTimerCount() === 1);
    const looks = measured.mock.settledResults.length;
    vi.advanceTimersByTime(1_000);
    await until(() => measured.mock.settledResults.length > looks && vi.getTimerCount() === 1);
  };
  return { clock, lines, metrics, intake, measured, backlog, look };
}

it('refuses while more steps are due than may be, and no longer', async () => {
  const { clock, lines, intake, measured, backlog, look } = open(2);
  backlog.start();
  await look();
  for (const [dueSteps, isRefused] of [
    [2, false],
    [3, true],
    [2, false],
  ] as const) {
    measured.mockResolvedValue({ dueSteps, oldestDueAt: clock.now() });
    await look();
    expect(intake.setFull).toHaveBeenLastCalledWith(isRefused);
  }
  expect(lines.map(({ msg }) => msg)).toEqual([
    'too many steps are due; deliveries get 503',
    'the backlog of due steps is below the limit again; deliveries are accepted',
  ]);
  await backlog.stop();
});

it('shows how many steps are due and how long the oldest has been', async () => {
  const { clock, metrics, measured, backlog, look } = open(10);
  measured.mockResolvedValue({ dueSteps: 4, oldestDueAt: clock.now() - 1_500 });
  backlog.start();
  await look();
  const text = await metrics.registry.metrics();
  expect(text).toContain('sluice_due_steps 4');
  expect(text).toContain('sluice_oldest_due_step_seconds 1.5');
  await backlog.stop();
});

it('goes on when the store is back', async () => {
  const { clock, lines, intake, measured, backlog, look } = open(2);
  measured.mockRejectedValueOnce(new StoreUnavailableError('the disk is full'));
  backlog.start();
  await look();
  measured.mockResolvedValue({ dueSteps: 3, oldestDueAt: clock.now() });
  await look();
  expect(intake.setFull).toHaveBeenLastCalledWith(true);
  expect(lines[0]).toMatchObject({ msg: 'due steps could not be counted; trying again' });
  await backlog.stop();
  expect(vi.getTimerCount()).toBe(0);
});
