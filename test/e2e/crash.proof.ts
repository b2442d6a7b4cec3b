import { createHmac, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { chanceOf } from '../chance.ts';
import {
  createWorkspace,
  GITHUB_SECRET,
  getJson,
  githubManifest,
  noneInFlight,
  type Service,
  sendPush,
  startService,
} from './service.ts';

const ROUNDS = 12;
const CONNECTIONS = 16;

interface Listed {
  id: string;
  status: string;
  triggerBody?: { delivery: string };
}

/** Sends over all connections until the service is gone. Returns run ids by delivery id, undefined without a 200. */
async function sendUntilGone(service: Service, onSend: () => void): Promise<Map<string, string | undefined>> {
  const answers = new Map<string, string | undefined>();
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      for (;;) {
        const delivery = randomUUID();
        onSend();
        const runId = await send(service, delivery).catch(() => undefined);
        answers.set(delivery, runId);
        if (runId === undefined) return;
      }
    }),
  );
  return answers;
}

/** The run's id if the answer is 200. */
async function send(service: Service, delivery: string): Promise<string | undefined> {
  const response = await post(service, delivery);
  if (response.status !== 200) return undefined;
  return ((await response.json()) as { runId: string }).runId;
}

const post = (service: Service, delivery: string) => sendPush(service, JSON.stringify({ delivery }), { id: delivery });

async function allRuns(service: Service): Promise<Listed[]> {
  const runs: Listed[] = [];
  for (let skip = 0; ; skip += 500) {
    const page = await getJson<Listed[]>(`${service.url}/flows/api/runs?take=500&skip=${skip}`);
    runs.push(...page);
    if (page.length < 500) return runs;
  }
}

/** Asks over `CONNECTIONS` connections: thousands at once overflow the queue of a busy machine. */
async function deliveriesOf({ url }: Service, runs: readonly Listed[]): Promise<ReadonlySet<string | undefined>> {
  const deliveries = new Set<string | undefined>();
  const left = runs.values();
  const ask = async () => {
    for (const { id } of left) {
      const { triggerBody } = await getJson<Listed>(`${url}/flows/api/runs/${id}`);
      deliveries.add(triggerBody?.delivery);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, ask));
  return deliveries;
}

it('loses no answered delivery and starts none twice, wherever the process is killed', async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const env = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_LOG_LEVEL: 'warn' };
  const answered = new Map<string, string>();
  for (let round = 0; round < ROUNDS; round += 1) {
    const service = await startService(workspace, env);
    // Killed at a number of requests, not after a time: each round dies at another point of the same sequence.
    let count = 0;
    const limit = 40 + round * 23;
    const answers = await sendUntilGone(service, () => {
      count += 1;
      if (count === limit) service.child.kill('SIGKILL');
    });
    await service.stop('SIGKILL');
    const again = await startService(workspace, env);
    for (const [delivery, runId] of answers) {
      if (runId !== undefined) {
        expect((await post(again, delivery)).status, 'the nonce of an answered delivery is refused').toBe(409);
        answered.set(delivery, runId);
        continue;
      }
      // Not answered: if committed just before the kill, this is a replay (409), otherwise new (200).
      const first = await post(again, delivery);
      expect([200, 409]).toContain(first.status);
      expect((await post(again, delivery)).status, 'sent once more it is known').toBe(409);
    }
    await noneInFlight(again);
    await again.stop('SIGKILL');
  }
  const service = await startService(workspace, env);
  const runs = await allRuns(service);
  const statuses = new Set(runs.map((run) => run.status));
  expect(statuses).toEqual(new Set(['Succeeded']));
  const ids = new Set(runs.map((run) => run.id));
  expect(ids.size).toBe(runs.length);
  for (const runId of answered.values()) expect(ids.has(runId)).toBe(true);
  const bodies = await deliveriesOf(service, runs);
  expect(bodies.size, 'every delivery has exactly one run').toBe(runs.length);
  const { accepted } = await getJson<{ accepted: number }>(`${service.url}/flows/api/webhooks/stats`);
  expect(accepted, 'each is counted once, whatever was counted when the process died').toBe(runs.length);
  await service.stop('SIGTERM');
});

/** Signed again for each attempt, as the publisher does. The service is a process with the machine's clock. */
function tell(service: Service, id: string, attempt: number): Promise<Response> {
  const body = JSON.stringify({ id });
  const at = Math.floor(Date.now() / 1000) - attempt;
  const signature = createHmac('sha256', GITHUB_SECRET).update(`${at}.${body}`).digest('hex');
  const headers = { 'content-type': 'application/json', 'stripe-signature': `t=${at},v1=${signature}` };
  return fetch(`${service.url}/flows/api/webhook/push`, { method: 'POST', headers, body });
}

it('starts one run for each event, however often it is signed anew and wherever the process is killed', async () => {
  const workspace = await createWorkspace();
  const inputs = { webhookSlug: 'push', webhookSignatureScheme: 'Stripe', webhookHmacKey: GITHUB_SECRET };
  await workspace.writeManifest('push.json', { ...githubManifest(), triggers: { push: { type: 'webhook', inputs } } });
  const env = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_LOG_LEVEL: 'warn' };
  const runOf = new Map<string, string>();
  const told = async (service: Service, id: string, attempt: number) => {
    const response = await tell(service, id, attempt);
    expect(response.status).toBe(200);
    const { runId } = (await response.json()) as { runId: string };
    expect(runOf.get(id) ?? runId, 'every answer names the run of the first').toBe(runId);
    runOf.set(id, runId);
  };
  const events: string[] = [];
  const { below } = chanceOf('kills of events that are told again');
  for (let round = 0; round < 6; round += 1) {
    const service = await startService(workspace, env);
    const ids = Array.from({ length: 12 }, () => randomUUID());
    events.push(...ids);
    const killAfter = 5 + below(60);
    let count = 0;
    const sender = async (attempt: number) => {
      for (const id of ids) {
        count += 1;
        if (count === killAfter) service.child.kill('SIGKILL');
        const isGone = await told(service, id, attempt).then(
          () => false,
          (error: unknown) => {
            if (error instanceof TypeError) return true;
            throw error;
          },
        );
        if (isGone) return;
      }
    };
    await Promise.all(Array.from({ length: 6 }, (_, attempt) => sender(attempt)));
    await service.stop('SIGKILL');
  }
  const service = await startService(workspace, env);
  for (const id of events) await told(service, id, 7);
  await noneInFlight(service);
  const runs = await allRuns(service);
  expect(runs.map(({ id }) => id).sort(), 'each event has one run').toEqual([...runOf.values()].sort());
  const books = await getJson<Record<string, number>>(`${service.url}/flows/api/books`);
  expect(books).toMatchObject({ runs: events.length, unaccounted: 0 });
  expect(books.accepted).toBe((books.runs ?? 0) + (books.duplicates ?? 0));
  await service.stop('SIGTERM');
});

it('answers everything it took when it is told to stop under load, and loses nothing', async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const env = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_LOG_LEVEL: 'warn' };
  const service = await startService(workspace, env);
  let count = 0;
  let stopped: ReturnType<Service['stop']> | undefined;
  const answers = await sendUntilGone(service, () => {
    count += 1;
    if (count === 300) stopped = service.stop('SIGTERM');
  });
  expect(await stopped).toEqual({ code: 0, signal: null });
  const again = await startService(workspace, env);
  for (const [delivery, runId] of answers) {
    if (runId === undefined) continue;
    expect((await post(again, delivery)).status).toBe(409);
  }
  await noneInFlight(again);
  const committed = (await allRuns(again)).length;
  const acknowledged = [...answers.values()].filter((runId) => runId !== undefined).length;
  expect(committed, 'nothing was taken without an answer').toBe(acknowledged);
  await again.stop('SIGTERM');
});
