import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { freePort } from '../free-port.ts';
import {
  createWorkspace,
  eventually,
  getJson,
  githubManifest,
  type Service,
  sendPush,
  startService,
  type Workspace,
} from './service.ts';

/**
 * Steps that end their process or take long; each writes to a journal. A step that does not end its process at once
 * waits until the process was ready, so that a process that never becomes ready fails the test.
 */
const CONFIG = `
import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { defineConfig, defineHandler, z } from '@sluicehq/sluice';

const note = (line) => appendFileSync('journal', line + '\\n');
const done = { kind: 'succeeded', output: null };
const die = {
  exit: () => process.exit(3),
  abort: () => process.abort(),
  kill: () => process.kill(process.pid, 'SIGKILL'),
};
export default defineConfig({
  handlers: [
    defineHandler({
      type: 'Die',
      inputs: z.object({ by: z.enum(['exit', 'abort', 'kill']), afterMs: z.number() }),
      async run({ inputs, runId }) {
        note('dying ' + runId);
        while (inputs.afterMs > 0 && !existsSync('ready')) await wait(10);
        if (inputs.afterMs > 0) await wait(inputs.afterMs);
        die[inputs.by]();
        return done;
      },
    }),
    defineHandler({
      type: 'Long',
      inputs: z.object({ ms: z.number() }),
      async run({ inputs, runId, signal }) {
        note('begun ' + runId);
        await wait(inputs.ms, undefined, { signal });
        note('ended ' + runId);
        return done;
      },
    }),
  ],
});
`;

const LONG = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a11';
const DIE = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a12';
const cel = (expression: string) => `\${${expression}}`;
const flow = (id: string, step: object) => ({
  id,
  name: id.slice(-2),
  version: '1',
  triggers: { manual: { type: 'manual' } },
  steps: { only: step },
});
const FLOWS = {
  long: flow(LONG, { type: 'Long', inputs: { ms: cel('trigger.body.ms') } }),
  die: flow(DIE, { type: 'Die', inputs: { by: cel('trigger.body.by'), afterMs: cel('trigger.body.afterMs') } }),
};

interface Run {
  id: string;
  status: string;
  steps: {
    stepKey: string;
    status: string;
    error: { code: string } | null;
    attempts: { status: string; error: { code: string } | null }[];
  }[];
}

async function openWorkspace(): Promise<Workspace> {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  for (const [name, manifest] of Object.entries(FLOWS)) await workspace.writeManifest(`${name}.json`, manifest);
  await writeFile(join(workspace.folder, 'sluice.config.ts'), CONFIG);
  return workspace;
}

/** The service under a supervisor, which starts it again on the same port whenever it ends. */
interface Kept {
  readonly url: string;
  /** How often the process died. */
  deaths: number;
  /** Stops the process normally, and ends the supervision. */
  stop(): Promise<Awaited<ReturnType<Service['stop']>>>;
}

async function keepRunning(workspace: Workspace): Promise<Kept> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let service: Service | undefined;
  let isStopping = false;
  const file = join(workspace.folder, 'ready');
  const noteReadiness = async (gone: AbortSignal): Promise<void> => {
    while (!gone.aborted) {
      const response = await fetch(`${url}/health/ready`, { signal: gone }).catch(() => undefined);
      if (response?.status === 200) return writeFile(file, '');
      await wait(10);
    }
  };
  const keep = async () => {
    while (!isStopping) {
      const gone = new AbortController();
      await rm(file, { force: true });
      const noting = noteReadiness(gone.signal);
      service = await startService(workspace, { SLUICE_PORT: String(port), SLUICE_LOG_LEVEL: 'warn' }).catch(
        () => undefined,
      );
      const { child } = service ?? {};
      if (child !== undefined && child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      gone.abort();
      await noting;
      if (isStopping) return;
      kept.deaths += 1;
    }
  };
  const kept: Kept = {
    url,
    deaths: 0,
    async stop() {
      isStopping = true;
      const stopped = await service?.stop('SIGTERM');
      await keeping;
      return stopped ?? { code: null, signal: null };
    },
  };
  const keeping = keep();
  onTestFinished(() => {
    isStopping = true;
    service?.child.kill('SIGKILL');
  });
  await insist(() => getJson(`${url}/health/ready`));
  return kept;
}

/** Repeats the request until it is answered: during a restart there is no answer. */
async function insist<T>(ask: () => Promise<T>): Promise<T> {
  const { answer } = await eventually(
    () =>
      ask().then(
        (answer) => ({ answer }),
        (error: Error) => ({ error }),
      ),
    (tried): tried is { answer: Awaited<T> } => 'answer' in tried,
    { seconds: 60, because: 'the process may die again before it answers' },
  );
  return answer;
}

async function trigger(url: string, flowId: string, body: object = {}): Promise<string> {
  const response = await fetch(`${url}/flows/api/flows/${flowId}/trigger`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return ((await response.json()) as { runId: string }).runId;
}

/** Like `trigger`, for a flow's first run. If the process dies before the answer, reads the id from the list. */
async function triggerPoison(url: string, flowId: string, body: object): Promise<string> {
  try {
    return await trigger(url, flowId, body);
  } catch {
    const [run] = await insist(() => getJson<Run[]>(`${url}/flows/api/runs?flowId=${flowId}`));
    return run?.id ?? '';
  }
}

/** Sends deliveries until stopped; collects the runs of the answered ones, all with 200. */
function sendDeliveries(url: string): { answered: string[]; stop(): Promise<void> } {
  const answered: string[] = [];
  let isStopping = false;
  const send = async () => {
    while (!isStopping) {
      // No answer is fine: the process was gone.
      const response = await sendPush({ url }, JSON.stringify({ sent: answered.length })).catch(() => {});
      if (response !== undefined) {
        expect(response.status).toBe(200);
        const answer = (await response.json().catch(() => undefined)) as { runId: string } | undefined;
        if (answer !== undefined) answered.push(answer.runId);
      }
      await wait(50);
    }
  };
  const sending = send();
  return {
    answered,
    stop: () => {
      isStopping = true;
      return sending;
    },
  };
}

const readRun = (url: string, runId: string) => insist(() => getJson<Run>(`${url}/flows/api/runs/${runId}`));
const ended = (url: string, runId: string) =>
  eventually(
    () => readRun(url, runId),
    ({ status }) => status !== 'Running',
    { seconds: 120, because: 'the process dies and starts again up to six times, and steps take seconds' },
  );

async function expectPoisoned(url: string, runId: string): Promise<void> {
  expect(await ended(url, runId)).toMatchObject({
    status: 'Failed',
    steps: [{ status: 'Failed', error: { code: 'interrupted_too_often' } }],
  });
}

/** It succeeded; only deaths of the process interrupted it. */
async function expectInnocent(url: string, runId: string): Promise<void> {
  const run = await ended(url, runId);
  expect(run.status, JSON.stringify(run)).toBe('Succeeded');
  for (const { attempts } of run.steps) {
    for (const { status, error } of attempts) if (status === 'Failed') expect(error?.code).toBe('interrupted');
    expect(attempts.filter(({ status }) => status === 'Succeeded')).toHaveLength(1);
  }
}

it.each([
  { by: 'exit', afterMs: 300 },
  { by: 'abort', afterMs: 300 },
  { by: 'kill', afterMs: 300 },
  { by: 'kill', afterMs: 0 },
])('a step that ends the process ($by after $afterMs ms) fails alone, and its neighbours succeed', async (poison) => {
  const workspace = await openWorkspace();
  const kept = await keepRunning(workspace);
  const { url } = kept;
  const before = await Promise.all([4000, 5000, 6000].map((ms) => trigger(url, LONG, { ms })));
  const runId = await triggerPoison(url, DIE, poison);
  const deliveries = sendDeliveries(url);
  const after = await insist(() => trigger(url, LONG, { ms: 3000 }));
  await expectPoisoned(url, runId);
  await deliveries.stop();
  for (const innocent of [...before, after, ...deliveries.answered]) await expectInnocent(url, innocent);
  expect(deliveries.answered.length).toBeGreaterThan(0);
  const journal = (await readFile(join(workspace.folder, 'journal'), 'utf8')).split('\n');
  for (const innocent of [...before, after]) expect(journal).toContain(`ended ${innocent}`);
  const [step] = (await readRun(url, runId)).steps;
  // Two deaths with others running, which blame no step, and three with this step alone. Deaths in the moment before
  // the attempt is written are not counted.
  expect(step?.attempts.filter(({ error }) => error?.code === 'interrupted')).toHaveLength(5);
  expect(kept.deaths).toBeGreaterThanOrEqual(5);
  expect(journal.filter((line) => line === `dying ${runId}`)).toHaveLength(kept.deaths);
  expect(await kept.stop()).toEqual({ code: 0, signal: null });
});
