import { describe, expect, it } from 'vitest';
import { CANARIES, HOOK_ONLY_ID, ORDERS, ORDERS_ID, UNKNOWN_ID, useDashboard } from './fixture.ts';

const dashboard = useDashboard();

const url = `/flows/api/flows/${ORDERS_ID}`;

async function request(...asked: Parameters<typeof dashboard.ask>) {
  const { status, body: answer } = await dashboard.ask(...asked);
  return { status, answer };
}

const put = (manifest: unknown, query = '') => request('PUT', `${url}${query}`, manifest);
const revisions = async () => (await request('GET', `${url}/revisions`)).answer;
const { announce, ...withoutAnnounce } = ORDERS.steps;
const nothingAfterValidate = { ...ORDERS, steps: withoutAnnounce };
const waiting = { ...ORDERS.steps, wait: { type: 'WaitForSignal', inputs: { signalName: 'go' } } };

describe('a deploy over HTTP', () => {
  it('of the deployed manifest changes nothing', async () => {
    expect(await put(ORDERS)).toMatchObject({
      status: 200,
      answer: { flowId: ORDERS_ID, action: 'unchanged', class: 'safe', revision: 1, findings: [], refusal: null },
    });
  });

  it('is only planned with dryRun', async () => {
    const changed = { ...ORDERS, version: '1.3.0' };
    const { status, answer } = await put(changed, '?dryRun=true');
    expect({ status, action: answer.action, revision: answer.revision }).toEqual({
      status: 200,
      action: 'updated',
      revision: 2,
    });
    expect(await revisions()).toHaveLength(1);
  });

  it('of a safe change is the next revision, in force at once', async () => {
    const { triggers } = ORDERS;
    const another = { type: 'webhook', inputs: { webhookSlug: 'more', webhookEnforcementMode: 'Off' } };
    const changed = { ...ORDERS, version: '1.3.0', triggers: { ...triggers, another } };
    const { answer } = await put(changed);
    expect(answer).toMatchObject({ action: 'updated', class: 'safe', revision: 2, version: '1.3.0' });
    expect(answer.findings.map(({ rule }: { rule: string }) => rule)).toContain('trigger-added');
    expect((await request('GET', url)).answer).toMatchObject({ revision: 2, version: '1.3.0' });
    const taken = await request('POST', '/flows/api/webhook/more', '{}');
    expect(taken.status).toBe(200);
    const run = await dashboard.store.findRun(taken.answer.runId);
    expect(run).toMatchObject({ revision: 2, flowVersion: '1.3.0' });
    await dashboard.store.cancelRun({ runId: taken.answer.runId, reason: null, at: 0 });
    expect((await put(ORDERS, '?allow=rollback')).answer).toMatchObject({
      action: 'updated',
      class: 'caution',
      revision: 3,
    });
  });

  it('with a caution is refused while runs are in flight, names them, and applies if allowed', async () => {
    const { runId } = (await request('POST', `${url}/trigger`)).answer;
    const changed = {
      ...ORDERS,
      steps: { ...ORDERS.steps, announce: { ...announce, runAfter: { charge: ['Failed'] } } },
    };
    const refused = await put(changed);
    expect(refused).toMatchObject({
      status: 409,
      answer: { action: 'refused', class: 'caution', revision: 3, runsInFlight: 1 },
    });
    expect(refused.answer.refusal).toContain(runId);
    expect(refused.answer.refusal).toContain('sluice drain');
    expect((await put(changed, '?allow=breaking')).status).toBe(409);
    expect(await put(changed, '?allow=caution')).toMatchObject({ status: 200, answer: { revision: 4, refusal: null } });
    expect((await revisions())[0]).toMatchObject({ revision: 4, source: 'api', overrides: ['caution'] });
    await dashboard.store.cancelRun({ runId, reason: null, at: 0 });
    expect((await put(ORDERS, '?allow=rollback')).answer).toMatchObject({
      action: 'updated',
      class: 'caution',
      revision: 5,
    });
    expect((await revisions())[0].overrides).toEqual(['rollback']);
  });

  it('that removes a step with history is refused with the recipe, unless that is allowed', async () => {
    const withoutValidate = { ...ORDERS, steps: { charge: { type: 'NoOp' } } };
    const { status, answer } = await put(withoutValidate);
    expect(status).toBe(409);
    expect(answer).toMatchObject({ action: 'refused', class: 'breaking', revision: 5 });
    const removed = answer.findings.find(({ path }: { path: string }) => path === 'steps.validate');
    expect(removed).toMatchObject({ class: 'breaking', recipe: { patch: expect.anything() } });
    expect(answer.refusal).toContain(removed.recipe.title);
    expect((await put(withoutValidate, '?allow=breaking&dryRun=true')).status).toBe(200);
  });

  it('of a step without history that is removed applies', async () => {
    expect((await put(nothingAfterValidate)).answer).toMatchObject({ action: 'updated', revision: 6 });
    await put(ORDERS, '?allow=rollback');
  });

  it('refuses a slug that another flow has', async () => {
    const other = { ...ORDERS, id: UNKNOWN_ID, name: 'other' };
    const { status, answer } = await request('PUT', `/flows/api/flows/${UNKNOWN_ID}`, other);
    expect(status).toBe(409);
    expect(answer).toMatchObject({ action: 'refused', revision: null });
    expect(answer.refusal).toContain('"orders"');
    expect((await request('GET', `/flows/api/flows/${UNKNOWN_ID}`)).status).toBe(404);
  });

  it('reports the warnings of a check', async () => {
    const id = '00000000-0000-4000-8000-000000000002';
    const triggers = { hook: { type: 'webhook', inputs: { webhookIpAllowList: '0.0.0.0-255.255.255.255' } } };
    const { status, answer } = await request('PUT', `/flows/api/flows/${id}`, {
      id,
      version: '1',
      triggers,
      steps: {},
    });
    expect(status).toBe(200);
    expect(answer.warnings).toContainEqual(expect.stringContaining('webhookIpAllowList'));
  });

  it('of an unknown id creates the flow', async () => {
    const id = '00000000-0000-4000-8000-000000000001';
    const created = await request('PUT', `/flows/api/flows/${id}`, { id, version: '1', steps: {} });
    expect(created.answer).toMatchObject({ action: 'created', revision: 1, name: id, findings: [] });
    expect((await request('GET', `/flows/api/flows/${id}`)).answer).toMatchObject({ revision: 1, isEnabled: true });
  });

  it.each([
    ['', 'value expected'],
    ['{"id": 1', 'close brace expected'],
    [{ ...ORDERS, steps: { a: { type: 'NoSuchHandler' } } }, 'is not a known step type'],
    [{ ...ORDERS, id: HOOK_ONLY_ID }, HOOK_ONLY_ID],
  ])('of an invalid manifest changes nothing and says what is wrong: %#', async (manifest, part) => {
    const before = await revisions();
    const { status, answer } = await put(manifest);
    expect(status).toBe(400);
    expect(answer).toMatchObject({ statusCode: 400, reason: 'invalid_manifest' });
    expect(answer.issues.length).toBeGreaterThan(0);
    expect(answer.message).toContain(part);
    expect(await revisions()).toEqual(before);
  });

  it('refuses the masked manifest that it shows: a mask is not a key', async () => {
    const { manifest } = (await request('GET', url)).answer;
    const { status, answer } = await put(manifest);
    expect(status).toBe(400);
    expect(answer.issues).toContainEqual(
      expect.objectContaining({ severity: 'error', path: 'triggers.shop.inputs.webhookHmacKey' }),
    );
  });

  it.each(['?allow=safe', '?allow=everything', '?dryRun=perhaps', '?force=true'])('refuses %s', async (query) => {
    expect((await put(ORDERS, query)).status).toBe(400);
  });

  it('never answers a secret', async () => {
    for (const query of ['?dryRun=true', '?allow=caution,breaking']) {
      expect(JSON.stringify((await put({ ...ORDERS, version: query }, query)).answer)).not.toContain('canary');
    }
    expect(JSON.stringify(await revisions())).not.toContain(CANARIES.key);
  });
});

describe('revisions', () => {
  it('show one with its manifest, and where two differ', async () => {
    expect((await request('GET', `${url}/revisions/1`)).answer).toMatchObject({
      flowId: ORDERS_ID,
      revision: 1,
      version: '1.2.0',
      manifest: { name: 'orders' },
    });
    const { answer } = await request('GET', `${url}/revisions/1/diff/2`);
    expect(answer).toMatchObject({ flowId: ORDERS_ID, from: 1, to: 2 });
    expect(answer.differences).toContainEqual({ path: 'version', kind: 'changed', before: '1.2.0', after: '1.3.0' });
    expect((await request('GET', `${url}/revisions/1/diff/1`)).answer.differences).toEqual([]);
  });

  it.each([
    [`${url}/revisions/999`, 404],
    [`${url}/revisions/0`, 400],
    [`${url}/revisions/x`, 400],
    [`${url}/revisions/1/diff/999`, 404],
  ])('answer %s with %i', async (path, status) => {
    expect((await request('GET', path)).status).toBe(status);
  });
});

describe('a drain', () => {
  const drainUrl = `${url}/drain`;

  it('stops every trigger, shows the remaining runs, and is done when the last ends', async () => {
    await put({ ...ORDERS, steps: waiting }, '?allow=caution');
    const { runId } = (await request('POST', `${url}/trigger`)).answer;
    expect((await request('GET', drainUrl)).answer).toMatchObject({ draining: false, since: null, done: false });
    const started = await request('POST', drainUrl);
    expect(started.answer).toMatchObject({ draining: true, done: false, runsInFlight: 1, held: 0 });
    expect(started.answer.runs).toMatchObject([{ id: runId, steps: { wait: { status: 'Pending', waiting: false } } }]);
    expect((await request('POST', drainUrl)).answer).toEqual(started.answer);
    expect((await request('GET', url)).answer.drainingSince).toBe(started.answer.since);

    expect(await request('POST', `${url}/trigger`)).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
    expect(await request('POST', '/flows/api/webhook/orders', '{}')).toMatchObject({
      status: 403,
      answer: { reason: 'flow_disabled' },
    });
    const job = `/flows/api/schedules/flow-${ORDERS_ID}-hourly`;
    expect((await request('POST', `${job}/trigger`)).status).toBe(403);
    expect((await request('GET', '/flows/api/schedules')).answer[0]).toMatchObject({
      paused: true,
      nextExecution: null,
    });

    await dashboard.store.cancelRun({ runId, reason: null, at: 0 });
    expect((await request('GET', drainUrl)).answer).toMatchObject({ draining: true, done: true, runsInFlight: 0 });
    expect((await put(ORDERS, '?allow=breaking,rollback')).answer.action).toBe('updated');
    expect((await request('GET', url)).answer.drainingSince).not.toBeNull();
    expect((await request('DELETE', drainUrl)).answer).toMatchObject({ draining: false, done: false });
    expect((await request('GET', '/flows/api/schedules')).answer[0].paused).toBe(false);
    expect((await request('POST', `${url}/trigger`)).status).toBe(200);
  });
});
