import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { chanceOf, SEED } from '../chance.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  getJson,
  githubManifest,
  noneInFlight,
  startService,
} from './service.ts';

/** More kills take a second each. */
const KILLS = Number(process.env.TEST_CRASH_KILLS ?? 60);
const RUNS_A_ROUND = 6;
/** Answers to the starts of a round, and calls of its steps: so many come, whatever was left by the rounds before. */
const FEWEST_EVENTS = RUNS_A_ROUND * 7;

interface Attempt {
  status: string;
  error: { code: string } | null;
  completedAt: string | null;
}
interface Step {
  stepKey: string;
  status: string;
  attemptCount: number;
  attempts: Attempt[];
  output: unknown;
  error: { code: string } | null;
}
interface Listed {
  id: string;
  status: string;
  steps: Step[];
}

/** Refuses the first call of every step, so that each is tried again. */
async function flakyServer(): Promise<{ url: string; calls: Map<string, number>; total: () => number }> {
  const calls = new Map<string, number>();
  let total = 0;
  const server = createServer((request, response) => {
    const key = String(request.headers['idempotency-key']);
    const count = (calls.get(key) ?? 0) + 1;
    calls.set(key, count);
    total += 1;
    response.writeHead(count === 1 ? 503 : 200, { 'content-type': 'application/json' }).end('{"ok":true}');
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  onTestFinished(() => {
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls, total: () => total };
}

const cel = (expression: string) => `\${${expression}}`;

function stepsOf(url: string): object {
  const retry = { maxAttempts: 5, backoffSeconds: 0.02, factor: 1, jitter: false };
  return {
    first: { type: 'NoOp' },
    each: {
      type: 'ForEach',
      forEach: cel('trigger.body.items'),
      concurrencyLimit: 2,
      runAfter: { first: ['Succeeded'] },
      steps: {
        call: { type: 'HttpRequest', inputs: { url }, retry },
        note: { type: 'Transform', inputs: { value: cel('loop.item * 2') }, runAfter: { call: ['Succeeded'] } },
      },
    },
    pause: { type: 'Delay', inputs: { seconds: 0.1 }, runAfter: { each: ['Succeeded'] } },
    never: { type: 'Fail', inputs: { message: 'no' }, runAfter: { pause: { when: 'size(trigger.body.items) == 0' } } },
    last: {
      type: 'LogMessage',
      inputs: { message: cel('steps.each.output') },
      runAfter: { pause: ['Succeeded'], never: ['Skipped'] },
    },
  };
}

/**
 * A step during which the process died three times with nothing else running is blamed and fails: on a slow machine the
 * kills may hit one step that often. Each of those deaths left an attempt that says so.
 */
function isBlamed({ steps }: Listed): boolean {
  const blamed = steps.filter(({ error }) => error?.code === 'interrupted_too_often');
  for (const { attempts } of blamed) {
    expect(attempts.filter(({ error }) => error?.code === 'interrupted').length).toBeGreaterThanOrEqual(3);
  }
  return blamed.length > 0;
}

it('ends every run once, with consistent attempts, wherever the process is killed', {
  timeout: 1_800_000,
}, async () => {
  const { below, next } = chanceOf('kills of the runtime');
  const { url, calls, total } = await flakyServer();
  const workspace = await createWorkspace();
  onTestFinished(() => workspace.remove());
  await workspace.writeManifest('push.json', githubManifest({ steps: stepsOf(url) }));
  // The receiver refuses the first call of each step: to a circuit it would be a host that never answers well.
  const env = { SLUICE_LOG_LEVEL: 'error', SLUICE_EGRESS_ALLOW: '127.0.0.1', SLUICE_CIRCUIT_FAILURES: '0' };
  const acknowledged: string[] = [];
  for (let kill = 0; kill < KILLS; kill += 1) {
    const service = await startService(workspace, env);
    const starting = Promise.allSettled(
      Array.from({ length: RUNS_A_ROUND }, async () => {
        const response = await fetch(`${service.url}/flows/api/flows/${FLOW_ID}/trigger`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: '{"items":[1,2,3]}',
        });
        acknowledged.push(((await response.json()) as { runId: string }).runId);
      }),
    );
    // Killed after a number of answers, calls and turns, not after a time: each is killed at another point of its work.
    const before = acknowledged.length + total();
    const events = 1 + Math.floor(next() ** 2 * FEWEST_EVENTS);
    await eventually(
      () => acknowledged.length + total() - before,
      (count) => count >= events,
      { seconds: 60, because: 'steps that are suspected of the deaths run alone' },
    );
    for (let turns = below(200); turns > 0; turns -= 1) await setImmediate();
    await service.stop('SIGKILL');
    await starting;
  }
  const service = await startService(workspace, env);
  await noneInFlight(service, { seconds: 240, because: 'steps that are suspected of the deaths run alone, in turn' });
  expect(acknowledged.length, `TEST_SEED=${SEED}`).toBeGreaterThan(0);
  let blamed = 0;
  for (const runId of acknowledged) {
    const run = await getJson<Listed>(`${service.url}/flows/api/runs/${runId}`);
    if (isBlamed(run)) {
      expect(run.status, `TEST_SEED=${SEED}, run ${runId}`).toBe('Failed');
      blamed += 1;
      continue;
    }
    expect(run.status, `TEST_SEED=${SEED}, run ${runId}`).toBe('Succeeded');
    expect(run.steps.find(({ stepKey }) => stepKey === 'last')?.output).toEqual([2, 4, 6]);
    for (const step of run.steps) {
      const about = `TEST_SEED=${SEED}, run ${runId}, step ${step.stepKey}`;
      expect(step.status, about).toBe(step.stepKey === 'never' ? 'Skipped' : 'Succeeded');
      expect(step.attempts, about).toHaveLength(step.attemptCount);
      expect(step.attempts.filter(({ status }) => status === 'Succeeded').length, about).toBe(
        step.stepKey === 'never' ? 0 : 1,
      );
      for (const { completedAt, status, error } of step.attempts) {
        expect(completedAt, about).not.toBeNull();
        if (status === 'Failed') expect(['interrupted', 'unexpected_status'], about).toContain(error?.code);
      }
    }
    for (const index of [0, 1, 2]) expect(calls.get(`${runId}:each.${index}.call`)).toBeGreaterThan(1);
  }
  expect(blamed, `TEST_SEED=${SEED}`).toBeLessThan(acknowledged.length);
  await service.stop('SIGTERM');
});
