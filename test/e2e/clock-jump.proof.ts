import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createWorkspace, eventually, FLOW_ID, getJson, startService } from './service.ts';

const DAY_MS = 86_400_000;

/** Adds to the clock of a process and its threads what a file says, at each look. */
const SHIFT = `
  import { readFileSync } from 'node:fs';
  const { now } = Date;
  Date.now = () => now() + Number(readFileSync(process.env.CLOCK_SHIFT_FILE, 'utf8'));
`;

interface Run {
  startedAt: string;
}

it('fires cron by the right time again after the clock of the process was days ahead, while it runs and over a restart', async () => {
  const workspace = await createWorkspace();
  onTestFinished(() => workspace.remove());
  await workspace.writeManifest('tick.json', {
    id: FLOW_ID,
    name: 'tick',
    version: '1',
    triggers: { tick: { type: 'cron', inputs: { cronExpression: '* * * * * *' } } },
    steps: { only: { type: 'NoOp' } },
  });
  const file = join(workspace.folder, 'clock-shift');
  const setAhead = (days: number) => writeFile(file, String(days * DAY_MS));
  const start = () =>
    startService(workspace, {
      CLOCK_SHIFT_FILE: file,
      NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(SHIFT)}`,
    });
  await setAhead(0);
  let service = await start();
  onTestFinished(() => void service.child.kill('SIGKILL'));

  /** Runs whose start is so many days from now by the machine's clock, which is the right one, give or take half of one. */
  const runsAt = async (days: number): Promise<number> => {
    // Asking for the schedules has the scheduler look at the clock; else it does so within a minute.
    await getJson(`${service.url}/flows/api/schedules`);
    const runs = await getJson<Run[]>(`${service.url}/flows/api/runs?take=500`);
    return runs.filter(({ startedAt }) => Math.abs(Date.parse(startedAt) - Date.now() - days * DAY_MS) < DAY_MS / 2)
      .length;
  };
  await eventually(
    () => runsAt(0),
    (count) => count >= 1,
  );
  await setAhead(3);
  await eventually(
    () => runsAt(3),
    (count) => count >= 2,
  );
  await setAhead(0);
  const before = await runsAt(0);
  await eventually(
    () => runsAt(0),
    (count) => count >= before + 2,
  );

  await setAhead(7);
  await eventually(
    () => runsAt(7),
    (count) => count >= 2,
  );
  expect(await service.stop('SIGTERM')).toEqual({ code: 0, signal: null });
  await setAhead(0);
  service = await start();
  const atStart = await runsAt(0);
  await eventually(
    () => runsAt(0),
    (count) => count >= atStart + 2,
  );
  expect(await service.stop('SIGTERM')).toEqual({ code: 0, signal: null });
});
