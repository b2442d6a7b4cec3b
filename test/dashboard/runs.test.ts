import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type HostState, Hosts } from '../../src/features/http-request/hosts.ts';
import type { NewRun } from '../../src/store/store.ts';
import { CANARIES, HOOK_ONLY_ID, NOW, ORDERS_ID, startDashboard, type TestDashboard, useDashboard } from './fixture.ts';

const dashboard = useDashboard();
const { get } = dashboard;

const runId = (number: number) => `01990000-0000-7000-8000-${String(number).padStart(12, '0')}`;

/** Stores a run as the engine plans it. */
async function store(number: number, trigger: Partial<NewRun['trigger']> = {}, overrides: Partial<NewRun> = {}) {
  const flow = dashboard.catalog.find(overrides.flowId ?? ORDERS_ID);
  if (flow === undefined) throw new Error('no such flow');
  const run = dashboard.engine.planRun({
    runId: runId(number),
    flow,
    triggerType: 'manual',
    trigger: { key: 'byHand', body: Buffer.from('{}'), contentType: 'application/json', headers: {}, ...trigger },
    deliveryId: null,
    sourceRunId: null,
    traceparent: null,
    at: NOW + number,
  });
  await dashboard.store.accept({ run: { ...run, ...overrides }, idempotencyKey: `key-${number}` });
  return run.id;
}

/** Claims the one due step and ends it. */
async function finish(number: number, at: number) {
  const { claims } = await dashboard.store.claimDue({ owner: 'me', now: at, leasedUntil: at + 1000, limit: 100 });
  for (const claim of claims.filter((each) => each.runId === runId(number))) {
    await dashboard.store.advance({
      token: claim.token,
      runId: claim.runId,
      stepKey: claim.stepKey,
      at: at + 5,
      input: { message: 'hello' },
      result: { kind: 'succeeded', output: 42 },
    });
  }
}

describe('a list of runs', () => {
  it('is newest first, each without the details of a single run', async () => {
    await store(1);
    await store(2, {}, { flowId: HOOK_ONLY_ID, flowName: 'hook only' });
    expect(await get('/flows/api/runs')).toMatchObject([{ id: runId(2) }, { id: runId(1) }]);
    expect(await get(`/flows/api/runs?flowId=${ORDERS_ID}&status=running&search=ORDERS`)).toEqual([
      {
        id: runId(1),
        flowId: ORDERS_ID,
        flowName: 'orders',
        flowVersion: '1.2.0',
        revision: 1,
        status: 'Running',
        triggerKey: 'byHand',
        triggerType: 'manual',
        deliveryId: null,
        sourceRunId: null,
        startedAt: '2026-11-21T12:00:00.001Z',
        completedAt: null,
        waitingFor: [],
        failure: null,
        searchKeys: {},
      },
    ]);
    expect(await get('/flows/api/runs?includeTotal=true&take=1')).toMatchObject({
      items: [{ id: runId(2) }],
      total: 2,
      skip: 0,
      take: 1,
    });
  });
});

describe('one run', () => {
  it.each([
    ['JSON as its value', Buffer.from('{"a":[1]}'), 'application/json', { a: [1] }],
    [
      'a form as its fields',
      Buffer.from('a=1&a=2&b=x'),
      'application/x-www-form-urlencoded',
      { a: ['1', '2'], b: 'x' },
    ],
    ['text as text', Buffer.from('hello'), 'text/plain', 'hello'],
    ['other bytes as base64', Buffer.from([0xff, 0xfe]), 'application/octet-stream', { base64: '//4=' }],
    ['nothing as null', Buffer.alloc(0), null, null],
  ])('shows a trigger body of %s', async (rule, body, contentType, expected) => {
    const id = await store(100 + rule.length, { body, contentType });
    expect(await get(`/flows/api/runs/${id}`)).toMatchObject({ id, triggerBody: expected });
  });

  it.each([
    ['JSON nested 5 000 deep', '['.repeat(5_000) + ']'.repeat(5_000), 'application/json'],
    ['a form of 1 001 fields', 'a=&'.repeat(1_001), 'application/x-www-form-urlencoded'],
  ])('shows a trigger body that no expression reads, %s, as its text', async (_rule, text, contentType) => {
    const id = await store(150 + text.length, { body: Buffer.from(text), contentType });
    expect(await get(`/flows/api/runs/${id}`)).toMatchObject({ id, triggerBody: text });
  });

  it('shows the numbers of a trigger body as they were sent', async () => {
    const id = await store(160, { body: Buffer.from('{"id":12345678901234567890,"paid":1.10}') });
    const { body } = await dashboard.app.inject(`/flows/api/runs/${id}`);
    expect(body).toContain('"triggerBody":{"id":12345678901234567890,"paid":1.10}');
  });

  it('shows the headers of its trigger without credentials', async () => {
    const id = await store(200, {
      headers: { authorization: CANARIES.authorization, 'x-shop': 'a', 'x-github-event': 'push' },
    });
    const { triggerHeaders } = await get(`/flows/api/runs/${id}`);
    expect(triggerHeaders).toEqual({ authorization: '[redacted]', 'x-shop': '[redacted]', 'x-github-event': 'push' });
  });

  it('has every step of its graph in manifest order, with unreached ones as Pending without times', async () => {
    const id = await store(300);
    await finish(300, NOW + 1000);
    const steps = await get(`/flows/api/runs/${id.toUpperCase()}/steps`);
    expect((await get(`/flows/api/runs/${id}`)).steps).toEqual(steps);
    expect(steps.map(({ stepKey, status }: Record<string, unknown>) => [stepKey, status])).toEqual([
      ['validate', 'Succeeded'],
      ['announce', 'Pending'],
      ['charge', 'Pending'],
    ]);
    expect(steps[0]).toEqual({
      runId: id,
      timeoutSeconds: null,
      stepKey: 'validate',
      stepType: 'NoOp',
      status: 'Succeeded',
      input: { message: 'hello' },
      output: 42,
      error: null,
      skipReason: null,
      evaluationTrace: null,
      attemptCount: 1,
      attempts: [
        {
          attempt: 1,
          status: 'Succeeded',
          input: { message: 'hello' },
          inputsRevision: null,
          output: 42,
          error: null,
          slotWaitMs: 700,
          startedAt: '2026-11-21T12:00:01.000Z',
          completedAt: '2026-11-21T12:00:01.005Z',
        },
      ],
      dueAt: null,
      startedAt: '2026-11-21T12:00:01.000Z',
      completedAt: '2026-11-21T12:00:01.005Z',
    });
  });

  it('shows a step that has no row yet as Pending', async () => {
    const id = await store(400);
    const [, announce] = await get(`/flows/api/runs/${id}/steps`);
    expect(announce).toEqual({
      runId: id,
      stepKey: 'announce',
      stepType: 'LogMessage',
      status: 'Pending',
      input: null,
      output: null,
      error: null,
      skipReason: null,
      evaluationTrace: null,
      attemptCount: 0,
      timeoutSeconds: null,
      attempts: [],
      dueAt: null,
      startedAt: null,
      completedAt: null,
    });
  });

  it('puts rows of iterations after their loop, in its order', async () => {
    const rows = ['validate', 'charge.10.pay', 'charge.2.pay', 'gone'].map((stepKey) => ({
      stepKey,
      stepType: 'NoOp',
      dueAt: NOW + 5_000_000,
    }));
    const id = await store(500, {}, { steps: rows });
    const steps: { stepKey: string }[] = await get(`/flows/api/runs/${id}/steps`);
    expect(steps.map(({ stepKey }) => stepKey)).toEqual([
      'validate',
      'announce',
      'charge',
      'charge.2.pay',
      'charge.10.pay',
      'gone',
    ]);
  });

  it('has a control record', async () => {
    const id = await store(600, {}, { timeoutAt: NOW + 60_000 });
    expect(await get(`/flows/api/runs/${id}/control`)).toEqual({
      runId: id,
      idempotencyKey: 'key-600',
      timeoutAt: '2026-11-21T12:01:00.000Z',
      cancelRequested: false,
      cancelReason: null,
      cancelRequestedAt: null,
      timedOutAt: null,
      deliveries: null,
      order: null,
    });
  });
});

describe('where a run stands', () => {
  const MENDED = {
    id: '5e2d7a10-3c4b-4d8e-9f01-8a7b6c5d4e3f',
    name: 'mended',
    version: '1',
    triggers: { byHand: { type: 'manual' } },
    steps: {
      charge: { type: 'NoOp' },
      refund: { type: 'NoOp', runAfter: { charge: ['Failed'] } },
      note: { type: 'NoOp', runAfter: { refund: ['Succeeded'] } },
    },
  };
  let mended: TestDashboard;
  const hosts: HostState[] = [];
  beforeAll(async () => {
    vi.spyOn(Hosts.prototype, 'list').mockImplementation(async () => hosts);
    mended = await startDashboard({}, [MENDED]);
  });
  afterAll(() => {
    vi.restoreAllMocks();
    return mended.close();
  });

  type Result = Parameters<TestDashboard['store']['advance']>[0]['result'];
  const succeeds: Result = { kind: 'succeeded', output: null };
  const fails = (message: string): Result => ({
    kind: 'failed',
    error: { code: 'handler_error', message, retryable: false },
  });

  /** Starts a run and ends its steps with these results, one after the other. */
  async function runOf(results: readonly Result[]): Promise<string> {
    const url = `/flows/api/flows/${MENDED.id}/trigger`;
    const { runId: started } = (await mended.app.inject({ method: 'POST', url })).json();
    for (const [n, result] of results.entries()) {
      const at = NOW + n;
      const { claims } = await mended.store.claimDue({ owner: 'me', now: at, leasedUntil: at + 1000, limit: 9 });
      for (const { token, runId: of, stepKey } of claims) {
        await mended.store.advance({ token, runId: of, stepKey, at, input: {}, result });
      }
    }
    return started;
  }
  const runAt = async (url: string) => (await mended.app.inject(`/flows/api/${url}`)).json();
  const failureOf = async (of: string) => (await runAt(`runs/${of}`)).failure;

  it('a failed run names the step that nothing handled, whatever failed before', async () => {
    const failed = await runOf([fails('No.'), succeeds, fails('x'.repeat(301))]);
    expect(await failureOf(failed)).toEqual({
      stepKey: 'note',
      code: 'handler_error',
      host: null,
      error: `${'x'.repeat(200)}…`,
      message: `${'x'.repeat(299)}…`,
      handled: false,
    });
    const { items } = await runAt('runs?status=Failed&includeTotal=true');
    expect(items).toMatchObject([{ id: failed, failure: { stepKey: 'note' }, waitingFor: [] }]);
  });

  it('a run that succeeded over a failed step says so', async () => {
    const failure = {
      stepKey: 'charge',
      code: 'handler_error',
      host: null,
      error: 'No.',
      message: 'No.',
      handled: true,
    };
    expect(await failureOf(await runOf([fails('No.'), succeeds, succeeds]))).toEqual(failure);
    expect(await failureOf(await runOf([succeeds]))).toBeNull();
  });

  it('a run in flight says what it waits for, in every view, and is found by it', async () => {
    const until = '2026-11-21T12:05:00.000Z';
    const error = { code: 'handler_error', message: 'Not now.', retryable: true };
    const retried = await runOf([{ kind: 'retry', error, dueAt: Date.parse(until) }]);
    const waitingFor = [
      { for: 'retry', stepKey: 'charge', signalName: null, host: null, runId: null, until, why: null, steps: 1 },
    ];
    expect(await runAt('runs?waiting=RETRY')).toMatchObject([{ id: retried, waitingFor, failure: null }]);
    expect(await runAt(`runs/${retried}/outline`)).toMatchObject({ run: { waitingFor } });
    expect(await runAt('runs/active')).toMatchObject([{ waitingFor }]);
    expect(await runAt('runs?waiting=signal&includeTotal=true')).toMatchObject({ items: [], total: 0 });
  });

  it('a run that waits for a host whose circuit is open says why, and when the host is tried again', async () => {
    const host = 'https://api.example.com';
    const dueAt = NOW + 3_600_000;
    const waiting = await runOf([{ kind: 'waiting', state: { hostTurn: host }, dueAt, signalName: null }]);
    const waitOf = async () => (await runAt(`runs/${waiting}`)).waitingFor;
    expect(await waitOf()).toMatchObject([{ for: 'host', host, until: new Date(dueAt).toISOString(), why: null }]);
    const failed = { why: 'failed', since: NOW, failures: 10, lastError: 'ECONNREFUSED', probes: 0 } as const;
    const circuit = { state: 'open', caller: null, ...failed, until: NOW + 20_000 } as const;
    const figures = { failures: 10, inFlight: 0, requestsPerSecond: 0, waitingSteps: 1, lastError: null };
    hosts.push({ origin: host, circuits: [circuit], limits: {}, isFailing: false, ...figures });
    const until = new Date(NOW + 20_000).toISOString();
    expect(await waitOf()).toMatchObject([
      { for: 'host', host, until, why: expect.stringContaining('connection refused') },
    ]);
    hosts.pop();
    await mended.app.inject({ method: 'POST', url: `/flows/api/runs/${waiting}/cancel` });
  });

  it('a run that waits for a host is told of the circuit of its own step, and of no other flow', async () => {
    const host = 'https://api.example.com';
    const waiting = await runOf([{ kind: 'waiting', state: { hostTurn: host }, dueAt: NOW + 5000, signalName: null }]);
    const { flowId } = await runAt(`runs/${waiting}`);
    const whyOf = async () => (await runAt(`runs/${waiting}`)).waitingFor[0].why;
    const opened = (caller: string | null) => {
      const failed = { why: 'failed', since: NOW, failures: 10, lastError: 'answered 500', probes: 0 } as const;
      return { state: 'open', caller, ...failed, until: NOW + 20_000 } as const;
    };
    const other = opened(`step charge of flow ${ORDERS_ID.replace(/^./, 'f')} with env:OTHER_SECRET`);
    const figures = { failures: 10, inFlight: 0, requestsPerSecond: 0, waitingSteps: 1, lastError: null };
    const told = { origin: host, circuits: [other], limits: {}, isFailing: false, ...figures };
    hosts.push(told);
    expect(await whyOf()).toBeNull();
    hosts.splice(0, hosts.length, { ...told, circuits: [other, opened(`step charge of flow ${flowId} with env:OWN`)] });
    expect(await whyOf()).toContain(`fails for step charge of flow ${flowId} with env:OWN since`);
    hosts.pop();
    await mended.app.inject({ method: 'POST', url: `/flows/api/runs/${waiting}/cancel` });
  });

  it('a step that runs is not due: its lease says nothing to people', async () => {
    const running = await runOf([]);
    await mended.store.claimDue({ owner: 'me', now: NOW + 9, leasedUntil: NOW + 60_000, limit: 9 });
    const [charge] = (await runAt(`runs/${running}`)).steps;
    expect(charge).toMatchObject({ status: 'Running', dueAt: null });
    expect((await runAt(`runs/${running}/outline`)).steps[0]).toMatchObject({ status: 'Running', dueAt: null });
    await mended.app.inject({ method: 'POST', url: `/flows/api/runs/${running}/cancel` });
  });

  it('a step that fell due a moment ago does not wait for a slot yet', async () => {
    const due = await runOf([]);
    expect(await runAt('runs?waiting=slot')).toEqual([]);
    mended.clock.advance(1000);
    const waitingFor = [
      { for: 'slot', stepKey: 'charge', signalName: null, host: null, runId: null, until: null, why: null, steps: 1 },
    ];
    expect(await runAt('runs?waiting=slot')).toMatchObject([{ id: due, waitingFor }]);
    const plan = await mended.app.inject({ method: 'POST', url: '/flows/api/runs/cancel', body: { waiting: 'slot' } });
    expect(plan.json()).toMatchObject({ ready: 1, sample: [{ id: due }] });
  });
});
