import { describe, expect, it } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import type { StepResult } from '../../../src/store/store.ts';
import { HOOK_ONLY_ID, ORDERS_ID, startDashboard, useDashboard } from '../../dashboard/fixture.ts';
import { eventually } from '../../eventually.ts';

const dashboard = useDashboard('each');
async function ask(method: 'GET' | 'POST', path: string, given?: unknown) {
  const { status, body: answer } = await dashboard.ask(method, `/flows/api${path}`, given);
  return { status, answer };
}
const post = async (url: string, body?: unknown) => (await ask('POST', url, body)).answer;

async function startRuns(count: number): Promise<string[]> {
  const ids = [];
  for (let index = 0; index < count; index += 1) {
    dashboard.clock.advance(1);
    ids.push((await post(`/flows/${ORDERS_ID}/trigger`, { index })).runId);
  }
  return ids;
}

/** Ends every due step until none is left. */
async function endAll(result: StepResult, keep: readonly string[] = []) {
  for (let isMore = true; isMore; ) {
    const now = dashboard.clock.now();
    const { claims } = await dashboard.store.claimDue({ owner: 'me', now, leasedUntil: now + 60_000, limit: 100 });
    for (const { token, runId, stepKey } of claims) {
      if (!keep.includes(runId)) {
        await dashboard.store.advance({ token, runId, stepKey, at: now, input: {}, result });
      }
    }
    isMore = claims.some(({ runId }) => !keep.includes(runId));
  }
}
const failed: StepResult = { kind: 'failed', error: { code: 'no', message: 'no', retryable: false } };
const succeeded: StepResult = { kind: 'succeeded', output: null };

async function carryOut(action: string, token: string, given: object = {}) {
  const started = await post(`/runs/${action}`, { plan: false, token, ...given });
  return eventually(
    async () => (await ask('GET', `/activity?id=${started.interventionId}`)).answer[0],
    ({ outcome }) => outcome !== 'unknown',
  );
}
const statusOf = async (runId: string) => (await ask('GET', `/runs/${runId}`)).answer.status;
const interventions = async () => (await ask('GET', '/activity?take=500')).answer;

describe('a plan for many runs', () => {
  it('says what would be done to how many, and changes nothing', async () => {
    const ids = await startRuns(12);
    const before = await interventions();
    const { token, ...plan } = await post('/runs/cancel', { flowId: ORDERS_ID.toUpperCase() });
    expect(plan).toMatchObject({ plan: true, total: 12, looked: 12, ready: 12, leftOut: [] });
    expect(plan.sample.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 10));
    expect((await post('/runs/cancel', { flowId: HOOK_ONLY_ID })).ready).toBe(0);
    expect(await interventions()).toEqual(before);
    for (const id of ids) expect(await statusOf(id)).toBe('Running');
  });

  it.each(['flowId', 'status', 'step', 'error', 'since'])(
    'is refused where %s is blank, which could mean all',
    async (name) => {
      await startRuns(1);
      for (const blank of ['', ' ']) {
        const { status, answer } = await ask('POST', '/runs/cancel', { [name]: blank });
        expect([status, answer.message]).toEqual([400, `body.${name}: is blank; give a value, or leave it out`]);
      }
    },
  );

  it('takes the newest that match, as many as the limit says, and counts all', async () => {
    const ids = await startRuns(5);
    const plan = await post('/runs/cancel', { limit: 2 });
    expect(plan).toMatchObject({ total: 5, looked: 2, ready: 2 });
    await carryOut('cancel', plan.token);
    expect(await Promise.all(ids.map(statusOf))).toEqual(['Running', 'Running', 'Running', 'Cancelled', 'Cancelled']);
  });

  it('leaves out the runs that the action is not for, and says why', async () => {
    const [failing = '', running = ''] = await startRuns(2);
    await endAll(failed, [running]);
    expect(await post('/runs/retry', { status: 'Running' })).toMatchObject({
      ready: 0,
      leftOut: [{ reason: 'run_not_ended', message: 'The run has not ended', count: 1, example: running }],
    });
    expect((await post('/runs/cancel', { status: 'failed' })).leftOut).toMatchObject([
      { reason: 'run_ended', count: 1, example: failing },
    ]);
    expect((await post('/runs/rerun')).leftOut).toMatchObject([{ reason: 'run_not_ended', example: running }]);
    await post(`/flows/${ORDERS_ID}/disable`);
    expect((await post('/runs/rerun', { status: 'Failed' })).leftOut).toMatchObject([{ reason: 'flow_disabled' }]);
  });

  it.each([
    [{ plan: false }, 'body.token: is missing; ask for a plan first and send its token'],
    [{ plan: false, token: 'x' }, 'body.token: is not the token of a plan that you asked for'],
    [{ plan: false, token: 'e30.AAAA.AAAA' }, 'body.token: is not the token'],
    [{ status: 'Lost' }, 'body.status: "Lost" is not accepted'],
    [{ nobody: 1 }, 'body.nobody: there is no such field'],
    [{ limit: 10_001 }, 'body.limit: '],
  ])('is refused as %j', async (given, message) => {
    const { status, answer } = await ask('POST', '/runs/cancel', given);
    expect({ status, ...answer }).toMatchObject({ status: 400, message: expect.stringContaining(message) });
    expect(await interventions()).toEqual([]);
  });

  it('is carried out by its own operation, and without another filter', async () => {
    await startRuns(1);
    const { token } = await post('/runs/cancel');
    expect((await ask('POST', '/runs/rerun', { plan: false, token })).status).toBe(400);
    expect((await ask('POST', '/runs/cancel', { plan: false, token, flowId: ORDERS_ID })).status).toBe(400);
  });
});

describe('carried out', () => {
  it('it does what was planned, to no run that matches since', async () => {
    const [first = '', second = ''] = await startRuns(2);
    const { token } = await post('/runs/cancel', { search: 'orders', since: '2026-01-01T00:00:00Z' });
    await endAll(succeeded, [second]);
    const [later = ''] = await startRuns(1);
    const done = await carryOut('cancel', token, { reason: 'ordered twice' });
    expect(done).toMatchObject({
      action: 'cancelRuns',
      target: null,
      reason: 'ordered twice',
      outcome: 'done',
      details: {
        search: 'orders',
        since: '2026-01-01T00:00:00.000Z',
        planned: '2',
        done: '1',
        leftOut: '1 (The run has ended: 1)',
      },
    });
    expect(await Promise.all([first, second, later].map(statusOf))).toEqual(['Succeeded', 'Running', 'Running']);
    expect((await ask('GET', `/runs/${second}/control`)).answer).toMatchObject({ cancelReason: 'ordered twice' });
  });

  it('it is kept with its filter as it was asked for, however long', async () => {
    await startRuns(1);
    const searchKeys = `order:${'😀'.repeat(300)}`;
    const { token } = await post('/runs/cancel', { searchKeys });
    expect(await carryOut('cancel', token)).toMatchObject({ details: { searchKeys, planned: '0' } });
  });

  it('it is one intervention and one event', async () => {
    await startRuns(3);
    const { token } = await post('/runs/cancel');
    const before = dashboard.logged.length;
    await carryOut('cancel', token);
    const events = dashboard.logged.slice(before).filter(({ eventName }) => eventName === 'Intervention');
    expect(events).toMatchObject([{ action: 'cancelRuns', details: { planned: '3' }, statusCode: 200 }]);
    expect((await interventions()).filter(({ action }: { action: string }) => action !== 'triggerFlow')).toHaveLength(
      1,
    );
  });

  it('a retry retries the steps that made each run fail, once per plan', async () => {
    const ids = await startRuns(2);
    await endAll(failed);
    dashboard.clock.advance(1);
    const { token } = await post('/runs/retry');
    expect(await carryOut('retry', token)).toMatchObject({ details: { done: '2', leftOut: '0' } });
    expect(await Promise.all(ids.map(statusOf))).toEqual(['Running', 'Running']);
    dashboard.clock.advance(1);
    await endAll(failed);
    expect(await carryOut('retry', token)).toMatchObject({
      details: { done: '0', leftOut: '2 (The run has changed since the plan: 2)' },
    });
  });

  it('a re-run starts each run once per plan, however often it is sent', async () => {
    const ids = await startRuns(2);
    await endAll(succeeded);
    const { token } = await post('/runs/rerun');
    for (const _ of [1, 2]) expect(await carryOut('rerun', token)).toMatchObject({ details: { done: '2' } });
    const runs = (await ask('GET', '/runs')).answer;
    expect(runs.map(({ sourceRunId }: { sourceRunId: string | null }) => sourceRunId)).toEqual([
      ids[1],
      ids[0],
      null,
      null,
    ]);
  });

  it('it stops where the store goes away, says how far it got, and goes on when it is sent again', async () => {
    const [first = '', second = ''] = await startRuns(2);
    let isAway = false;
    const control: never = {
      cancel: (runId: string, reason: string | null) => {
        if (isAway && runId === second) throw new StoreUnavailableError('disk full');
        return dashboard.store.cancelRun({ runId, reason, at: dashboard.clock.now() });
      },
    } as never;
    const other = await startDashboard({ control, store: dashboard.store });
    const { token } = await post('/runs/cancel');
    Object.assign(dashboard, { app: other.app, clock: other.clock });
    isAway = true;
    expect(await carryOut('cancel', token)).toMatchObject({ outcome: 'failed', details: { planned: '2', done: '1' } });
    expect(await Promise.all([first, second].map(statusOf))).toEqual(['Cancelled', 'Running']);
    isAway = false;
    expect(await carryOut('cancel', token)).toMatchObject({ outcome: 'done' });
    expect(await statusOf(second)).toBe('Cancelled');
  });
});
