import { describe, expect, it } from 'vitest';
import { ALERT_FLOW_ID } from '../../src/model/manifest.ts';
import type { StepError } from '../../src/model/run.ts';
import { aRun, deployOf, graphOf, id } from '../store/samples.ts';
import { endDue, HOOK_ONLY_ID, NOW, ORDERS_ID, useDashboard } from './fixture.ts';

const dashboard = useDashboard('each');
const get = (url: string) => dashboard.get(`/flows/api${url}`);
const post = async (url: string, body?: object) => (await dashboard.ask('POST', `/flows/api${url}`, body)).body;

/** Starts a run of a flow and fails its steps one after the other. */
async function failRun(flowId: string, error: StepError): Promise<string> {
  dashboard.clock.advance(1000);
  const { runId } = await post(`/flows/${flowId}/trigger`, {});
  await endDue(dashboard, { kind: 'failed', error });
  return runId;
}

const host = 'https://api.example.com';
const refusal = (order: number): StepError => ({
  code: 'unexpected_status',
  message: `422 unknown order ${order} · POST /orders`,
  retryable: false,
  host,
});
const timeout: StepError = { code: 'timeout', message: 'no complete answer within 30 s', retryable: true };
const idsOf = (runs: readonly { readonly id: string }[]) => runs.map((run) => run.id);

describe('failed runs', () => {
  it('are grouped by what they failed by, and each group is a filter of the list, of charts and of bulk actions', async () => {
    const [first, second] = [await failRun(ORDERS_ID, refusal(1000)), await failRun(ORDERS_ID, refusal(2000))];
    const other = await failRun(HOOK_ONLY_ID, timeout);
    const failures = await get('/runs/failures?status=Failed');
    const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString();
    const cause = { step: 'validate', code: 'unexpected_status', host, error: '422 unknown order … · POST /orders' };
    expect(failures).toMatchObject({
      groups: [
        { flowId: ORDERS_ID, ...cause, count: 2, firstAt: at(1), lastAt: at(2) },
        { flowId: HOOK_ONLY_ID, step: 'only', code: 'timeout', host: null, error: timeout.message, count: 1 },
      ],
    });
    expect(failures.groups[0].trend).toEqual([...Array(23).fill(0), 2]);

    const query = new URLSearchParams({ flowId: ORDERS_ID, ...cause }).toString();
    expect(idsOf(await get(`/runs?${query}`))).toEqual([second, first]);
    expect((await get(`/runs?${query}&includeTotal=true`)).total).toBe(2);
    expect((await get(`/runs/failures?${query}`)).groups).toHaveLength(1);
    const { buckets } = await get(`/runs/timeseries?${query}`);
    expect(buckets.reduce((sum: number, { failed }: { failed: number }) => sum + failed, 0)).toBe(2);
    expect((await post('/runs/retry', cause)).sample.map((run: { id: string }) => run.id)).toEqual([first, second]);
    expect((await post('/runs/rerun', { code: 'timeout' })).sample).toMatchObject([
      { id: other, failure: { host: null } },
    ]);
  });

  it('say of the failed step its host and what does not vary', async () => {
    const { failure } = await get(`/runs/${await failRun(HOOK_ONLY_ID, refusal(1234))}`);
    expect(failure).toEqual({
      stepKey: 'only',
      code: 'unexpected_status',
      host,
      error: '422 unknown order … · POST /orders',
      message: '422 unknown order 1234 · POST /orders',
      handled: false,
    });
  });

  it('are looked for in the time that is asked for', async () => {
    await failRun(HOOK_ONLY_ID, timeout);
    const { since, until, groups } = await get(`/runs/failures?since=${NOW + 2000}&until=${NOW + 4000}`);
    expect({ since, until, groups }).toEqual({
      since: new Date(NOW + 2000).toISOString(),
      until: new Date(NOW + 4000).toISOString(),
      groups: [],
    });
    expect((await get(`/runs/failures?since=${NOW}&until=${NOW + 4000}`)).groups[0].trend[6]).toBe(1);
  });
});

describe('the flow that sends alerts', () => {
  const runOfAlerts = async () => {
    await dashboard.store.deployFlow(deployOf(graphOf({ send: [] }), { id: ALERT_FLOW_ID, name: 'alerts' }));
    const run = aRun({ id: id(1), flowId: ALERT_FLOW_ID, flowName: 'alerts', startedAt: NOW });
    await dashboard.store.accept({ run });
    return run.id;
  };

  it.each([
    ['the list of runs', '/runs', (runs: unknown[]) => runs.length],
    ['its total', '/runs?includeTotal=true', ({ total }: { total: number }) => total],
    ['a search', '/runs?search=alerts', (runs: unknown[]) => runs.length],
    ['the runs in flight', '/runs/active', (runs: unknown[]) => runs.length],
    ['the counts', '/runs/stats', ({ activeRuns }: { activeRuns: number }) => activeRuns],
    [
      'the chart',
      '/runs/timeseries?bucket=hour&hours=1',
      ({ buckets }: { buckets: { total: number }[] }) => buckets.reduce((sum, { total }) => sum + total, 0),
    ],
  ])('has no run in %s unless it is asked for', async (_name, path, count: (answer: never) => number) => {
    await runOfAlerts();
    const all = `${path}${path.includes('?') ? '&' : '?'}includeBuiltIn=true`;
    expect([count((await get(path)) as never), count((await get(all)) as never)]).toEqual([0, 1]);
  });

  it('is asked for by its id too', async () => {
    const runId = await runOfAlerts();
    expect(idsOf(await get(`/runs?flowId=${ALERT_FLOW_ID}`))).toEqual([runId]);
  });

  it('has no run in a bulk action unless it is asked for', async () => {
    await runOfAlerts();
    expect(await post('/runs/cancel')).toMatchObject({ total: 0, ready: 0 });
    expect(await post('/runs/cancel', { includeBuiltIn: true })).toMatchObject({ total: 1, ready: 1 });
    expect(await post('/runs/cancel', { includeBuiltIn: 'yes' })).toMatchObject({
      message: expect.stringContaining('body.includeBuiltIn'),
    });
  });
});
