import { createHmac, randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  GITHUB_SECRET,
  getJson,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

const cel = (expression: string) => `\${${expression}}`;
/** A run goes on by a signal, and fails by a signal of 0. */
const steps = {
  go: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
  check: { type: 'Transform', inputs: { value: cel('1 / int(steps.go.output)') }, runAfter: { go: ['Succeeded'] } },
};
const flow = { serialize: 'trigger.body.order', serializeOnFailure: 'stop' };

let workspace: Workspace;
let service: Service;
const start = async () => {
  service = await startService(workspace, { SLUICE_ENFORCEMENT_MODE: 'Audit', SLUICE_HOLD_DELIVERIES: 'true' });
};
beforeEach(async () => {
  workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest({ steps, flow }));
  await start();
});
afterEach(async () => {
  await service.stop('SIGTERM');
  await workspace.remove();
});

const at = (path: string) => `${service.url}/flows/api/${path}`;

async function post(path: string, body: unknown = {}, headers: Record<string, string> = {}) {
  const payload = JSON.stringify(body);
  const json = { 'content-type': 'application/json', ...headers };
  const response = await fetch(at(path), { method: 'POST', headers: json, body: payload });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

/** Yields the id of the run. */
async function deliver(order: unknown, { isSigned = true } = {}): Promise<string> {
  const body = { order, nonce: randomUUID() };
  const signature = createHmac('sha256', isSigned ? GITHUB_SECRET : 'a guess').update(JSON.stringify(body));
  const { status, body: answer } = await post('webhook/push', body, {
    'x-hub-signature-256': `sha256=${signature.digest('hex')}`,
    'x-github-delivery': randomUUID(),
  });
  expect(status).toBe(200);
  return String(answer.runId);
}

interface Shown {
  readonly id: string;
  readonly status: string;
  readonly waitingFor: readonly { readonly for: string; readonly runId: string | null }[];
}
const shown = (runId: string) => getJson<Shown>(at(`runs/${runId}`));
const waitsFor = (runId: string, kind: string) =>
  eventually(
    () => shown(runId),
    ({ waitingFor }) => waitingFor.some((wait) => wait.for === kind),
  );
const isBehind = async (runId: string, ahead: string) =>
  expect((await shown(runId)).waitingFor).toMatchObject([{ for: 'order', stepKey: null, runId: ahead }]);

/** Lets a run that has its turn end. */
async function end(runId: string, result = 1): Promise<string> {
  await waitsFor(runId, 'signal');
  await post(`runs/${runId}/signals/go`, result);
  const { status } = await eventually(
    () => shown(runId),
    (run) => run.status !== 'Running',
  );
  return status;
}
const attention = async () =>
  (await getJson<{ kind: string; message: string }[]>(at('attention'))).filter(({ kind }) => kind.startsWith('order_'));

it('runs of one key wait for each other, through a kill of the process', async () => {
  const [first, second, third] = [await deliver(1), await deliver(1), await deliver(1)];
  const other = await deliver(2);
  await waitsFor(other, 'signal');
  await isBehind(second, first);
  await isBehind(third, second);
  await service.stop('SIGKILL');
  await start();
  await isBehind(third, second);
  expect(await end(first)).toBe('Succeeded');
  await waitsFor(second, 'signal');
  await isBehind(third, second);
  await service.stop('SIGKILL');
  await start();
  expect(await end(second)).toBe('Succeeded');
  expect(await end(third)).toBe('Succeeded');
  expect(await end(other)).toBe('Succeeded');
  expect(await getJson(at('books'))).toMatchObject({ accepted: 4, runs: 4, unaccounted: 0 });
});

it('a stranger under Audit neither delays nor stops what is verified', async () => {
  const strangers = [await deliver(1, { isSigned: false }), await deliver(1, { isSigned: false })] as const;
  const own = await deliver(1);
  await waitsFor(own, 'signal');
  await isBehind(strangers[1], strangers[0]);
  // By hand it is what the stranger sent.
  expect(await end(strangers[0], 0)).toBe('Failed');
  const { body } = await post(`runs/${strangers[0]}/rerun`);
  await isBehind(String(body.runId), strangers[1]);
  expect(await attention()).toEqual([]);
  const next = await deliver(1);
  await isBehind(next, own);
  expect(await end(own)).toBe('Succeeded');
  expect(await end(next)).toBe('Succeeded');
});

it('a failed run holds its key until somebody releases it, and why is kept', async () => {
  const [first, second] = [await deliver('A'), await deliver('A')];
  expect(await end(first, 0)).toBe('Failed');
  await isBehind(second, first);
  expect(await attention()).toMatchObject([{ kind: 'order_stopped', message: expect.stringContaining('“A”') }]);
  expect(await getJson(at(`runs/${first}/control`))).toMatchObject({
    order: { key: 'A', problem: null, state: 'stopped', verified: true },
  });
  expect(await post(`runs/${second}/release-order`)).toMatchObject({ status: 409, body: { reason: 'not_holding' } });
  expect(await post(`runs/${randomUUID()}/release-order`)).toMatchObject({ status: 404 });
  expect(await post(`runs/${first}/release-order`, { reason: 'shipped by hand' })).toMatchObject({
    status: 200,
    body: { success: true, runId: second },
  });
  const [entry] = await getJson<object[]>(at('activity'));
  expect(entry).toMatchObject({ action: 'releaseOrder', reason: 'shipped by hand' });
  expect(await attention()).toEqual([]);
  expect(await end(second)).toBe('Succeeded');
});

it('runs that people start, held deliveries and runs without a key take part', async () => {
  const first = await deliver('A');
  const byHand = String((await post(`flows/${FLOW_ID}/trigger`, { order: 'A' })).body.runId);
  await isBehind(byHand, first);
  await post(`flows/${FLOW_ID}/drain`, { hold: true });
  const held = await deliver('A');
  expect(await end(first)).toBe('Succeeded');
  // A drain lets what is in flight go on, in its order.
  await waitsFor(byHand, 'signal');
  await fetch(at(`flows/${FLOW_ID}/drain`), { method: 'DELETE' });
  await post(`flows/${FLOW_ID}/resume`);
  await eventually(
    () => fetch(at(`runs/${held}`)),
    ({ status }) => status === 200,
  );
  await isBehind(held, byHand);
  const [none, nothing] = [await deliver(null), await deliver({})];
  await isBehind(nothing, none);
  expect(await attention()).toMatchObject([{ kind: 'order_keyless', message: expect.stringContaining('2 runs') }]);
  expect(await end(byHand)).toBe('Succeeded');
  expect(await end(held)).toBe('Succeeded');
});
