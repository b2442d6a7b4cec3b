import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../eventually.ts';
import { UNKNOWN_ID } from './fixture.ts';
import {
  ALL,
  api,
  CANARY,
  CANARY_ID,
  type LimitedService,
  readable,
  SHOP_ID,
  startLimited,
  TOKENS,
  TWIN_ID,
} from './limited.ts';

/* What a credential limited to flows sees of their relations to other flows, may do, and gets as live events. */

let service: LimitedService;
let hidden: Record<string, string>;

beforeAll(async () => {
  service = await startLimited();
  await service.populateShop();
  hidden = await service.populateCanary();
});

const ask: LimitedService['ask'] = (...asked) => service.ask(...asked);
const asReader: LimitedService['asReader'] = (...asked) => service.asReader(...asked);
const deliver: LimitedService['deliver'] = (...sent) => service.deliver(...sent);
const trigger: LimitedService['trigger'] = (flowId) => service.trigger(flowId);
const advance: LimitedService['advance'] = (error) => service.advance(error);

describe('what a flow in sight has to do with another one', () => {
  const json = async (path: string) => JSON.parse((await asReader('GET', `${api}/${path}`)).body);

  it('a delivery to a slug that both share is shown as the flow in sight got it, and cannot be delivered again', async () => {
    const { deliveryId, runs } = await deliver('common', { order: 'C-1' });
    expect(runs.map(({ flowId }) => flowId).sort()).toEqual([TWIN_ID, SHOP_ID].sort());
    const own = runs.find(({ flowId }) => flowId === SHOP_ID);
    const whole = JSON.parse((await ask(ALL, 'GET', `${api}/webhooks/${deliveryId}`)).body);
    expect(whole).toMatchObject({ flowId: TWIN_ID, triggerKey: 'canaryCommon' });
    const [listed] = await json('webhooks/recent?take=1');
    for (const shown of [listed, await json(`webhooks/${deliveryId}`)]) {
      expect(shown).toMatchObject({ flowId: SHOP_ID, triggerKey: 'common', runId: own?.runId, runStatus: null });
      expect(shown.runs).toEqual([expect.objectContaining({ flowId: SHOP_ID })]);
      expect(JSON.stringify(shown)).not.toMatch(/canary|1a5b6c7d/);
    }
    const evidence = readable((await asReader('GET', `${api}/webhooks/${deliveryId}/evidence`)).body);
    expect(evidence).toContain(own?.runId);
    expect(evidence).not.toMatch(/canary/);
    await deliver('common', { order: 'C-2' }, 'wrong');
    const [refused] = await json('webhooks/recent?take=1');
    const again = await asReader('POST', `${api}/webhooks/${refused.id}/redeliver`, { force: true });
    expect(JSON.parse(again.body)).toMatchObject({ statusCode: 403, reason: 'limited_to_flows' });
    const many = await asReader('POST', `${api}/webhooks/redeliver`, { reason: 'signature_mismatch' });
    expect(many.body).not.toContain(refused.id);
  });

  it('it is named by the id that the manifest has, and its runs are in no lineage', async () => {
    const runId = await trigger(SHOP_ID);
    await advance({ code: 'broken', message: 'no', retryable: false });
    for (let turn = 0; turn < 3; turn += 1) await advance({ code: 'broken', message: 'no', retryable: false });
    const whole = JSON.parse((await ask(ALL, 'GET', `${api}/runs/${runId}/lineage`)).body);
    expect(whole.derived).toEqual([expect.objectContaining({ flowName: 'canary-twin' })]);
    expect(await json(`runs/${runId}/lineage`)).toEqual({ runId, source: null, derived: [], edited: false });
    expect((await json(`runs/${runId}/outline`)).onFailure).toEqual({ flowId: TWIN_ID, flowName: TWIN_ID });
    expect((await asReader('GET', `${api}/runs/${whole.derived[0].id}`)).status).toBe(404);
  });

  it('no attention is about it, nor names it', async () => {
    await ask(ALL, 'POST', `${api}/flows/${TWIN_ID}/disable`);
    expect((await ask(ALL, 'GET', `${api}/attention`)).body).toContain('its failure flow canary-twin is disabled');
    expect((await asReader('GET', `${api}/attention`)).body).not.toMatch(/canary|1a5b6c7d/);
    expect(JSON.parse((await asReader('GET', `${api}/attention`)).body)).toContainEqual(
      expect.objectContaining({ kind: 'failed_runs', flowId: SHOP_ID }),
    );
  });
});

describe('a command of whoever is limited to flows', () => {
  it('to many runs takes those in sight alone', async () => {
    const plan = JSON.parse((await asReader('POST', `${api}/runs/rerun`, { limit: 1000 })).body);
    expect(plan.ready).toBeGreaterThan(0);
    const all = JSON.parse((await ask(TOKENS.unlimited.token, 'POST', `${api}/runs/rerun`, {})).body);
    expect(all.total).toBeGreaterThan(plan.total);
    expect(JSON.stringify(plan)).not.toMatch(/canary/);
    const stolen = await asReader('POST', `${api}/runs/rerun`, { plan: false, token: all.token });
    expect(stolen.status).toBe(400);
  });

  it.each([
    ['of no flow', {}],
    ['of another flow', { flowId: CANARY_ID }],
    ['of a flow that there never was', { flowId: UNKNOWN_ID }],
  ])('has no deliveries forwarded %s', async (_what, body) => {
    const answer = await asReader('PUT', `${api}/webhooks/consumers/mine`, body);
    expect(JSON.parse(answer.body)).toMatchObject({ statusCode: 403, reason: 'limited_to_flows' });
  });

  it('has deliveries of a flow in sight forwarded, under a name that is free', async () => {
    expect((await asReader('PUT', `${api}/webhooks/consumers/mine`, { flowId: SHOP_ID })).status).toBe(200);
    const taken = await asReader('PUT', `${api}/webhooks/consumers/canary-laptop`, { flowId: SHOP_ID });
    expect(taken.status).toBe(409);
    expect(taken.body).not.toContain(CANARY_ID);
  });

  it('is told by no cursor how many runs other flows had', async () => {
    const consumer = `${api}/webhooks/consumers/counted`;
    const opened = await asReader('PUT', consumer, { flowId: SHOP_ID, since: '2020-01-01T00:00:00Z' });
    await deliver('canary-slug', { order: 'canary-12' });
    const { deliveryId: last } = await deliver('shop', { order: 'S-9' });
    type Read = {
      readonly deliveries: { readonly deliveryId: string; readonly cursor: string }[];
      readonly upTo: string;
    };
    const read = async (): Promise<Read> => JSON.parse((await asReader('GET', `${consumer}/deliveries?take=100`)).body);
    // PostgreSQL does not return rows newer than an open transaction, even another test's.
    const { deliveries, upTo } = await eventually(read, (answer) => answer.deliveries.at(-1)?.deliveryId === last);
    for (const cursor of [upTo, ...deliveries.map((each) => each.cursor)]) {
      expect(cursor).toMatch(/^[0-9a-f]{32}\.[0-9a-f-]{36}$/);
    }
    const advance = (from: string, to: string) => asReader('POST', `${consumer}/advance?from=${from}&to=${to}`);
    const { cursor } = JSON.parse(opened.body);
    const forged = `${'0'.repeat(32)}.${last}`;
    for (const to of [`1.0.${last}`, forged]) expect((await advance(cursor, to)).status).toBe(400);
    expect((await advance(cursor, deliveries.at(-1)?.cursor ?? '')).status).toBe(200);
    expect((await read()).deliveries).toEqual([]);
  });

  it('is in the activity of the flow, under the name of the token', async () => {
    await asReader('POST', `${api}/flows/${SHOP_ID}/trigger?reason=because`);
    const [row] = JSON.parse((await asReader('GET', `${api}/activity?target=${SHOP_ID}&take=1`)).body);
    expect(row).toMatchObject({ actor: 'reader', action: 'triggerFlow', reason: 'because' });
    expect((await asReader('GET', `${api}/activity?id=${row.id}`)).status).toBe(200);
    const others = JSON.parse((await ask(ALL, 'GET', `${api}/activity?target=${CANARY_ID}&actor=token&take=1`)).body);
    expect((await asReader('GET', `${api}/activity?id=${others[0].id}`)).status).toBe(403);
  });
});

describe('the drain of a flow in sight', () => {
  it('does not count the runs of others that may start it', async () => {
    const caller = { ...CANARY, id: '7a8b9c0d-5ac1-4b67-93b6-6f7a8b9c0d1e', name: 'canary-starter', triggers: {} };
    const steps = { call: { type: 'RunFlow', inputs: { flow: SHOP_ID } } };
    expect((await ask(ALL, 'PUT', `${api}/flows/${caller.id}`, { ...caller, steps })).status).toBe(200);
    const runId = await trigger(caller.id);
    const whole = JSON.parse((await ask(ALL, 'GET', `${api}/flows/${SHOP_ID}/drain`)).body);
    expect(whole).toMatchObject({ callersInFlight: 1, callers: [{ id: runId }] });
    const seenAs = JSON.parse((await asReader('GET', `${api}/flows/${SHOP_ID}/drain`)).body);
    expect(seenAs).toMatchObject({ callersInFlight: 0, callers: [] });
    await ask(ALL, 'POST', `${api}/runs/${runId}/cancel`);
  });
});

describe('a plan of whoever is limited to flows', () => {
  it('is not carried out with a flow that a deploy has moved out of sight since', async () => {
    const moving = { ...CANARY, id: '5e6f7a8b-3eaf-4f45-b194-4d5e6f7a8b9c', name: 'orders-moving', triggers: {} };
    const deploy = (name: string, version: string) =>
      ask(ALL, 'PUT', `${api}/flows/${moving.id}?allow=breaking`, { ...moving, name, version });
    expect((await deploy('orders-moving', '1')).status).toBe(200);
    const runId = await trigger(moving.id);
    const plan = JSON.parse((await asReader('POST', `${api}/runs/cancel`, { flowId: moving.id })).body);
    expect(plan.ready).toBe(1);
    expect((await deploy('canary-moved', '2')).status).toBe(200);
    const begun = JSON.parse((await asReader('POST', `${api}/runs/cancel`, { plan: false, token: plan.token })).body);
    const rowOf = async () => JSON.parse((await asReader('GET', `${api}/activity?id=${begun.interventionId}`)).body)[0];
    expect(await eventually(rowOf, ({ outcome }) => outcome === 'done')).toMatchObject({ details: { done: '0' } });
    expect(await service.dashboard.store.findRun(runId)).toMatchObject({ status: 'Running', cancelRequestedAt: null });
  });
});

describe('the event stream', () => {
  const read = async (search = '') => {
    const { app } = service.dashboard;
    if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = app.server.address() as { port: number };
    const aborted = new AbortController();
    const response = await fetch(`http://127.0.0.1:${port}${api}/events/stream${search}`, {
      headers: { authorization: `Bearer ${TOKENS.reader.token}` },
      signal: aborted.signal,
    });
    const reader = response.body?.getReader();
    let text = '';
    const until = async (pattern: RegExp) => {
      while (!pattern.test(text)) text += Buffer.from((await reader?.read())?.value ?? []).toString();
      return text;
    };
    return { status: response.status, until, end: () => aborted.abort() };
  };

  it('has the runs and deliveries of flows in sight, and of no others', async () => {
    const { until, end } = await read();
    await until(/: open/);
    await ask(ALL, 'POST', `${api}/flows/${CANARY_ID}/enable`);
    const other = await trigger(CANARY_ID);
    await deliver('canary-slug', { order: 'canary-11' });
    const own = await trigger(SHOP_ID);
    const text = await until(new RegExp(`"runId":"${own}"`));
    expect(text).not.toContain(other);
    expect(text).not.toMatch(/canary|9d8c7b6a/);
    // Attention is counted only for those flows; messages about the service itself are not sent.
    const attention = JSON.parse((await asReader('GET', `${api}/attention`)).body) as { severity: string }[];
    const warnings = attention.filter(({ severity }) => severity === 'warning').length;
    expect(await until(/event: attention\.changed\n.*\n\n/)).toMatch(`"warnings":${warnings}`);
    expect(await until(/event: service\.state\n.*\n\n/)).toMatch(/"message":null,"refused":null/);
    end();
  });

  it('counts no attention about another flow that starts one in sight', async () => {
    const caller = { ...CANARY, id: '6f7a8b9c-4fb0-4a56-82a5-5e6f7a8b9c0d', name: 'canary-caller', triggers: {} };
    const steps = { call: { type: 'RunFlow', inputs: { flow: SHOP_ID } } };
    await ask(ALL, 'PUT', `${api}/flows/${caller.id}`, { ...caller, onFailure: SHOP_ID, steps });
    await ask(ALL, 'POST', `${api}/flows/${SHOP_ID}/disable`);
    expect((await ask(ALL, 'GET', `${api}/attention`)).body).toMatch(/sub_flow_closed.*canary-caller/);
    const own = JSON.parse((await asReader('GET', `${api}/attention`)).body) as { severity: string }[];
    const count = (severity: string) => own.filter((item) => item.severity === severity).length;
    const { until, end } = await read();
    const counts = /event: attention\.changed\ndata: (.*)\n\n/;
    const [, told = ''] = counts.exec(await until(counts)) ?? [];
    expect(JSON.parse(told)).toEqual({ errors: count('error'), warnings: count('warning') });
    end();
    await ask(ALL, 'POST', `${api}/flows/${SHOP_ID}/enable`);
  });

  it('of a run that is out of sight is that of a run that there never was', async () => {
    expect((await read(`?runId=${hidden.run}`)).status).toBe(404);
    expect((await read(`?runId=${UNKNOWN_ID}`)).status).toBe(404);
  });
});
