import { beforeEach, describe, expect, it } from 'vitest';
import type { StepResult } from '../../src/store/store.ts';
import { endDue, NOW, ORDERS_ID, useDashboard } from './fixture.ts';

const dashboard = useDashboard('each');
const { ask } = dashboard;
let runId: string;

beforeEach(async () => {
  runId = (await post(`/flows/api/flows/${ORDERS_ID}/trigger`, { order: 1 })).body.runId;
});

const get = (url: string) => ask('GET', url);
const post = (url: string, body?: unknown) => ask('POST', url, body);

const failed: StepResult = { kind: 'failed', error: { code: 'no', message: 'no', retryable: false } };
const succeeded: StepResult = { kind: 'succeeded', output: null };

describe('cancel', () => {
  it('ends a run at once if no step of it is running, and its control says so', async () => {
    expect(await post(`/flows/api/runs/${runId}/cancel`, { reason: 'wrong order' })).toEqual({
      status: 200,
      body: { success: true, message: 'The run is cancelled', accepted: true, closedImmediately: true },
    });
    expect((await get(`/flows/api/runs/${runId}`)).body).toMatchObject({ status: 'Cancelled' });
    expect((await get(`/flows/api/runs/${runId}/control`)).body).toMatchObject({
      cancelRequested: true,
      cancelReason: 'wrong order',
      cancelRequestedAt: new Date(NOW).toISOString(),
    });
    expect(await post(`/flows/api/runs/${runId}/cancel`)).toMatchObject({ status: 409, body: { reason: 'run_ended' } });
  });

  it('reads a body of null as no reason', async () => {
    expect(await post(`/flows/api/runs/${runId}/cancel`, null)).toMatchObject({ status: 200 });
    expect((await get(`/flows/api/runs/${runId}/control`)).body).toMatchObject({ cancelReason: null });
  });

  it('waits for a running step', async () => {
    const now = dashboard.clock.now();
    const { claims } = await dashboard.store.claimDue({ owner: 'me', now, leasedUntil: now + 60_000, limit: 10 });
    const [claim] = claims;
    expect((await post(`/flows/api/runs/${runId}/cancel`)).body).toMatchObject({ closedImmediately: false });
    expect((await get(`/flows/api/runs/${runId}`)).body).toMatchObject({ status: 'Running' });
    const { token = '', stepKey = '' } = claim ?? {};
    await dashboard.store.advance({ token, runId, stepKey, at: now, input: {}, result: succeeded });
    expect((await get(`/flows/api/runs/${runId}`)).body).toMatchObject({ status: 'Cancelled' });
  });
});

describe('retry', () => {
  it('makes a failed step due again, plans skipped steps again, and keeps its attempts', async () => {
    await endDue(dashboard, failed);
    expect((await get(`/flows/api/runs/${runId}`)).body).toMatchObject({ status: 'Failed' });
    const url = `/flows/api/runs/${runId}/steps/validate/retry`;
    expect(await post(url)).toEqual({ status: 200, body: { success: true, message: 'Due again: validate' } });
    expect(await post(url)).toMatchObject({ status: 409, body: { reason: 'not_failed' } });
    for (let due = await endDue(dashboard, succeeded); due.length > 0; ) due = await endDue(dashboard, succeeded);
    const { body } = await get(`/flows/api/runs/${runId}`);
    expect(body.status).toBe('Succeeded');
    expect(body.steps).toMatchObject([
      { stepKey: 'validate', attempts: [{ status: 'Failed' }, { status: 'Succeeded' }] },
      { stepKey: 'announce', status: 'Succeeded', skipReason: null },
      { stepKey: 'charge', status: 'Succeeded' },
    ]);
  });
});

describe('rerun', () => {
  it('starts a run with the same body, and both know of each other', async () => {
    await endDue(dashboard, failed);
    const { status, body } = await post(`/flows/api/runs/${runId}/rerun`);
    expect([status, body.sourceRunId]).toEqual([200, runId]);
    expect((await get(`/flows/api/runs/${body.runId}`)).body).toMatchObject({
      sourceRunId: runId,
      triggerBody: { order: 1 },
      triggerKey: 'byHand',
    });
    expect((await get(`/flows/api/runs/${runId}/lineage`)).body).toMatchObject({
      runId,
      source: null,
      derived: [{ id: body.runId, status: 'Running', flowName: 'orders' }],
    });
    expect((await get(`/flows/api/runs/${body.runId}/lineage`)).body).toMatchObject({
      source: { id: runId },
      derived: [],
    });
  });

  it('is refused while the flow is disabled', async () => {
    await post(`/flows/api/flows/${ORDERS_ID}/disable`);
    expect(await post(`/flows/api/runs/${runId}/rerun`)).toMatchObject({
      status: 403,
      body: { reason: 'flow_disabled' },
    });
  });
});

describe('the history of a run', () => {
  it('is in order', async () => {
    dashboard.clock.advance(1000);
    await endDue(dashboard, failed);
    const { body } = await get(`/flows/api/runs/${runId}/events`);
    expect(
      body.map((event: { sequence: number; type: string; stepKey: string }) => [
        event.sequence,
        event.type,
        event.stepKey,
      ]),
    ).toEqual([
      [1, 'run.started', null],
      [2, 'step.started', 'validate'],
      [3, 'step.failed', 'validate'],
      [4, 'step.skipped', 'announce'],
      [5, 'step.skipped', 'charge'],
      [6, 'run.completed', null],
    ]);
  });
});

describe('figures', () => {
  it('count runs by how they ended', async () => {
    await endDue(dashboard, failed);
    await post(`/flows/api/flows/${ORDERS_ID}/trigger`, {});
    expect((await get('/flows/api/runs/stats')).body).toEqual({
      totalFlows: 2,
      activeRuns: 1,
      succeededToday: 0,
      failedToday: 1,
      cancelledToday: 0,
    });
    const { body } = await get('/flows/api/runs/timeseries?bucket=hour&hours=3');
    expect(
      body.buckets.map(({ total, failed: bad, running }: Record<string, number>) => [total, bad, running]),
    ).toEqual([
      [0, 0, 0],
      [0, 0, 0],
      [2, 1, 1],
    ]);
    expect(body.buckets[2].timestamp).toBe('2026-11-21T12:00:00.000Z');
  });
});

describe('schedules', () => {
  const job = `flow-${ORDERS_ID}-hourly`;

  it('say of a changed expression that it never fires, also while they are paused', async () => {
    const change = async (cronExpression: string) =>
      (await ask('PUT', `/flows/api/schedules/${job}/cron`, { cronExpression })).body.message;
    expect(await change('0 0 30 2 *')).toBe('The schedule never fires again');
    await post(`/flows/api/schedules/${job}/pause`);
    expect(await change('0 0 30 2 *')).toBe('The schedule never fires again');
    expect(await change('0 * * * *')).toBe('The schedule is paused');
  });

  it('are listed, paused, resumed, changed and triggered', async () => {
    expect((await get('/flows/api/schedules')).body).toEqual([
      {
        jobId: job,
        flowId: ORDERS_ID,
        flowName: 'orders',
        triggerKey: 'hourly',
        enabled: true,
        cron: '0 * * * *',
        timeZone: 'UTC',
        nextExecution: '2026-11-21T13:00:00.000Z',
        lastExecution: null,
        paused: false,
        manifestCron: '0 * * * *',
        changed: false,
        flowIsEnabled: true,
      },
    ]);
    expect((await post(`/flows/api/schedules/${job}/pause`)).body).toMatchObject({ success: true });
    expect((await get('/flows/api/schedules')).body).toMatchObject([{ paused: true, nextExecution: null }]);
    expect((await post(`/flows/api/schedules/${job}/resume`)).body).toMatchObject({ success: true });
    const changed = await ask('PUT', `/flows/api/schedules/${job}/cron`, { cronExpression: '30 4 * * *' });
    expect(changed).toMatchObject({ status: 200, body: { success: true } });
    expect((await get('/flows/api/schedules')).body).toMatchObject([
      { cron: '30 4 * * *', nextExecution: '2026-11-22T04:30:00.000Z', changed: true, manifestCron: '0 * * * *' },
    ]);
    const triggered = await post(`/flows/api/schedules/${job}/trigger`);
    expect((await get(`/flows/api/runs/${triggered.body.runId}`)).body).toMatchObject({
      triggerType: 'cron',
      triggerBody: null,
    });
    expect((await get('/flows/api/schedules')).body).toMatchObject([{ lastExecution: new Date(NOW).toISOString() }]);
  });

  it.each([[{}], [{ cronExpression: 'often' }], [{ cronExpression: '* * * * *', more: 1 }]])(
    'refuse %j',
    async (body) => {
      expect((await ask('PUT', `/flows/api/schedules/${job}/cron`, body)).status).toBe(400);
    },
  );
});

it('a signal that no step waits for is refused by name', async () => {
  const url = `/flows/api/runs/${runId}/signals/approve`;
  expect(await post(url, {})).toMatchObject({ status: 404, body: { reason: 'unknown_signal' } });
});

it('a signal nested deeper than expressions read is refused', async () => {
  const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth));
  const url = `/flows/api/runs/${runId}/signals/approve`;
  expect(await post(url, nested(257))).toMatchObject({
    status: 400,
    body: { message: 'body: is nested deeper than 256 levels' },
  });
  expect(await post(url, nested(256))).toMatchObject({ status: 404 });
});

it('a flow is drawn as a flowchart', async () => {
  expect((await get(`/flows/api/flows/${ORDERS_ID}/mermaid`)).body.mermaid.split('\n')).toEqual([
    'flowchart TD',
    '  n0["validate<br/>NoOp"]',
    '  n1["announce<br/>LogMessage"]',
    '  n0 --> n1',
    '  n2["charge<br/>HttpRequest"]',
    '  n0 --> n2',
  ]);
});
