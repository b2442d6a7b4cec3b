import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import type { RunStatus } from '../../src/model/manifest.ts';
import type { StepDetail } from '../../src/store/store.ts';
import { createWorkspace, FLOW_ID } from './service.ts';

const KILLS = Number(process.env.TEST_KILL_POINTS ?? 1000);
const MOMENTS = ['before', 'during', 'after'] as const;
/** A life of two runs makes about sixty writes. Later points are reached by lives that take over unfinished runs. */
const WRITES = 48;
/** Fewer than three: after three deaths with only this step running, the step would be given up. */
const KILLS_A_DATABASE = 2;
const RUNS_A_LIFE = 2;
/** One for each of two cores, each with its own databases. */
const LANES = 2;

const CHILD = resolve(import.meta.dirname, 'kill-point-child.mjs');

const cel = (expression: string) => `\${${expression}}`;
const after = (key: string, edge: object = {}) => ({ [key]: { statuses: ['Succeeded'], ...edge } });
const retry = { maxAttempts: 3, backoffSeconds: 0.01, factor: 1, maxBackoffSeconds: 1, jitter: false };

const inner = {
  id: FLOW_ID.replace('10', '11'),
  name: 'inner',
  version: '1',
  triggers: {},
  steps: {
    pause: { type: 'Delay', inputs: { seconds: 0.02 }, runAfter: {} },
    double: { type: 'Transform', inputs: { value: cel('trigger.body * 2') }, runAfter: after('pause') },
  },
};

const flow = {
  id: FLOW_ID,
  name: 'orders',
  version: '1',
  triggers: { manual: { type: 'manual', inputs: {} } },
  steps: {
    first: { type: 'NoOp', inputs: {}, runAfter: {} },
    each: {
      type: 'ForEach',
      inputs: {},
      forEach: cel('trigger.body.items'),
      concurrencyLimit: 2,
      runAfter: after('first'),
      steps: {
        call: { type: 'Flaky', inputs: {}, runAfter: {}, retry },
        note: { type: 'Transform', inputs: { value: cel('loop.item * 2') }, runAfter: after('call') },
      },
    },
    pause: { type: 'Delay', inputs: { seconds: 0.02 }, runAfter: after('each') },
    approve: { type: 'WaitForSignal', inputs: { signalName: 'go' }, runAfter: after('first') },
    hand: { type: 'RunFlow', inputs: { flow: inner.id, body: 21 }, runAfter: after('first') },
    fire: { type: 'RunFlow', inputs: { flow: inner.id, body: 1, wait: false }, runAfter: after('first') },
    never: {
      type: 'Fail',
      inputs: { message: 'no' },
      runAfter: after('pause', { when: 'size(trigger.body.items) == 0' }),
    },
    last: {
      type: 'LogMessage',
      inputs: { message: cel('steps.each.output') },
      runAfter: { ...after('pause'), ...after('approve'), ...after('hand'), never: { statuses: ['Skipped'] } },
    },
  },
};

interface Ended {
  id: string;
  flowId: string;
  sourceRunId: string | null;
  status: RunStatus;
  steps: StepDetail[];
}

interface Life {
  readonly acknowledged: string[];
  readonly isKilled: boolean;
}

/** Runs one process on the database of the folder; runs that it acknowledged before its end count. */
async function live(folder: string, point: { killAt: number; moment: string; runs: number }): Promise<Life> {
  const files = { file: join(folder, 'sluice.db'), journal: join(folder, 'journal'), report: join(folder, 'report') };
  const child = spawn(process.execPath, [CHILD, JSON.stringify({ ...files, flow, inner, ...point })]);
  const output: Buffer[] = [];
  const errors: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  if (signal !== 'SIGKILL' && code !== 0) throw new Error(`the child ended with ${code}: ${Buffer.concat(errors)}`);
  return { acknowledged: Buffer.concat(output).toString().split('\n').filter(Boolean), isKilled: signal === 'SIGKILL' };
}

async function check(folder: string, acknowledged: readonly string[], about: string): Promise<void> {
  const runs = JSON.parse(await readFile(join(folder, 'report'), 'utf8')) as Ended[];
  const calls = (await readFile(join(folder, 'journal'), 'utf8')).split('\n').map((line) => line.split(' ')[0]);
  expect(
    runs.map(({ id }) => id),
    about,
  ).toEqual(expect.arrayContaining([...acknowledged]));
  for (const run of runs.filter(({ flowId }) => flowId === FLOW_ID))
    expectSubRuns(run, runs, `${about}, run ${run.id}`);
  for (const { id, status, steps } of runs.filter(({ flowId }) => flowId === FLOW_ID)) {
    const which = `${about}, run ${id}`;
    expect(status, which).toBe('Succeeded');
    expect(steps.map(({ stepKey }) => stepKey).sort(), which).toEqual(STEP_KEYS);
    expect(steps.find(({ stepKey }) => stepKey === 'last')?.output, which).toEqual([2, 4, 6]);
    for (const step of steps) {
      const isNever = step.stepKey === 'never';
      expect(step.status, `${which}, ${step.stepKey}`).toBe(isNever ? 'Skipped' : 'Succeeded');
      expectConsistent(step, `${which}, ${step.stepKey}`);
    }
    for (const { stepKey, attempts } of steps.filter(({ stepType }) => stepType === 'Flaky')) {
      // Every answered attempt had a call; an interrupted attempt may have died before its call.
      const answered = attempts.filter(({ error }) => error?.code !== 'interrupted').length;
      const called = calls.filter((key) => key === `${id}:${stepKey}`).length;
      expect(called, `${which}, ${stepKey}`).toBeGreaterThanOrEqual(answered);
      // A process that died in the first moment of a call left no attempt for it.
      expect(called, `${which}, ${stepKey}`).toBeLessThanOrEqual(attempts.length + KILLS_A_DATABASE);
    }
  }
}

/** Each of the two steps that start the other flow started exactly one run of it, however often interrupted. */
function expectSubRuns({ id, steps }: Ended, runs: readonly Ended[], about: string): void {
  const started = runs.filter(({ sourceRunId }) => sourceRunId === id);
  const outputOf = (key: string) => steps.find(({ stepKey }) => stepKey === key)?.output as { runId?: string } | null;
  const [hand, fire] = [outputOf('hand'), outputOf('fire')];
  expect(
    started.map((run) => run.id),
    about,
  ).toEqual(expect.arrayContaining([hand?.runId, fire?.runId]));
  expect(started, about).toHaveLength(2);
  expect(
    started.map(({ status }) => status),
    about,
  ).toEqual(['Succeeded', 'Succeeded']);
  expect(hand, about).toMatchObject({ status: 'Succeeded', output: 42 });
}

const LOOP_KEYS = [0, 1, 2].flatMap((index) => [`each.${index}.call`, `each.${index}.note`]);
const STEP_KEYS = [...Object.keys(flow.steps), ...LOOP_KEYS].sort();

/** Every attempt has ended, exactly one succeeded, and the earlier ones have an error. */
function expectConsistent({ status, attempts, attemptCount }: StepDetail, about: string): void {
  expect(attempts, about).toHaveLength(attemptCount);
  const last = status === 'Skipped' ? [] : ['Succeeded'];
  expect(attempts.filter((attempt) => attempt.status !== 'Failed').map((attempt) => attempt.status)).toEqual(last);
  for (const attempt of attempts) {
    expect(attempt.completedAt, about).not.toBeNull();
    if (attempt.status === 'Failed') expect(['interrupted', 'down'], about).toContain(attempt.error?.code);
  }
}

it(`ends every run once at each of ${KILLS} points where the process is killed`, { timeout: 1_800_000 }, async () => {
  let point = 0;
  let kills = 0;
  const nextPoint = () => {
    const moment = MOMENTS[point % MOMENTS.length] ?? 'during';
    const killAt = 1 + (Math.floor(point / MOMENTS.length) % WRITES);
    point += 1;
    return { killAt, moment, runs: RUNS_A_LIFE };
  };
  const lane = async () => {
    while (kills < KILLS) {
      const workspace = await createWorkspace();
      const acknowledged: string[] = [];
      const points: string[] = [];
      for (let life = 0; life < KILLS_A_DATABASE; life += 1) {
        const at = nextPoint();
        const { acknowledged: ids, isKilled } = await live(workspace.folder, at);
        acknowledged.push(...ids);
        points.push(`${at.moment} write ${at.killAt}`);
        kills += Number(isKilled);
      }
      const last = await live(workspace.folder, { killAt: 0, moment: 'after', runs: 1 });
      await check(workspace.folder, [...acknowledged, ...last.acknowledged], `killed ${points.join(', ')}`);
      await workspace.remove();
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  expect(kills).toBeGreaterThanOrEqual(KILLS);
});
