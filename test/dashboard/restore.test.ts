import { describe, expect, it } from 'vitest';
import { CANARIES, ORDERS, ORDERS_ID, orderDelivery, useDashboard } from './fixture.ts';

const dashboard = useDashboard();

const url = `/flows/api/flows/${ORDERS_ID}`;

async function request(...asked: Parameters<typeof dashboard.ask>) {
  const { status, body: answer } = await dashboard.ask(...asked);
  return { status, answer };
}

const put = async (manifest: unknown, query = '') => {
  const { status } = await request('PUT', `${url}${query}`, manifest);
  expect(status).toBe(200);
};
const restore = (revision: number, query = '') => request('POST', `${url}/revisions/${revision}/restore${query}`);
const newest = async () => (await request('GET', `${url}/revisions?take=1`)).answer[0];
const { announce, ...withoutAnnounce } = ORDERS.steps;
const reordered = {
  ...ORDERS,
  steps: { ...ORDERS.steps, announce: { ...announce, runAfter: { charge: ['Failed'] } } },
};

describe('a revision that is restored', () => {
  it('is only planned with dryRun, with the findings that a deploy of its manifest has', async () => {
    await put(reordered);
    const { status, answer } = await restore(1, '?dryRun=true');
    expect({ status, answer }).toMatchObject({
      status: 200,
      answer: {
        action: 'updated',
        revision: 3,
        class: 'caution',
        rollbackTo: 1,
        refusal: null,
        warnings: expect.any(Array),
      },
    });
    const deployed = await request('PUT', `${url}?dryRun=true&allow=rollback`, ORDERS);
    expect(answer.findings).toEqual(deployed.answer.findings);
    expect(answer.findings).not.toEqual([]);
    expect(await newest()).toMatchObject({ revision: 2 });
  });

  it('is the next revision, in force at once, with the secrets that the manifest in force has', async () => {
    expect(await restore(1)).toMatchObject({ status: 200, answer: { action: 'updated', revision: 3 } });
    expect(await newest()).toMatchObject({ revision: 3, source: 'api', overrides: ['rollback'] });
    expect((await request('GET', `${url}/revisions/1/diff/3`)).answer.differences).toEqual([]);
    expect((await dashboard.app.inject(orderDelivery('{"order":1}'))).statusCode).toBe(200);
    const forged = await dashboard.app.inject(orderDelivery('{"order":2}', { key: '***' }));
    expect(forged.json()).toMatchObject({ reason: 'signature_mismatch' });
  });

  it('quotes no secret in any answer', async () => {
    const answers = [await restore(2, '?dryRun=true'), await request('GET', `${url}/revisions/3`)];
    for (const secret of Object.values(CANARIES)) expect(JSON.stringify(answers)).not.toContain(secret);
  });

  it('is refused with a caution while runs are in flight, unless that is allowed', async () => {
    const refused = await restore(2);
    expect(refused).toMatchObject({ status: 409, answer: { action: 'refused', class: 'caution', revision: 3 } });
    expect(refused.answer.refusal).toContain('sluice drain');
    expect(await newest()).toMatchObject({ revision: 3 });
    expect(await restore(2, '?allow=caution')).toMatchObject({ status: 200, answer: { revision: 4, refusal: null } });
    expect((await newest()).overrides.sort()).toEqual(['caution', 'rollback']);
  });

  it('is refused where it breaks what is stored, unless that is allowed', async () => {
    const more = { ...reordered.steps, later: { type: 'NoOp' } };
    await put({ ...reordered, steps: more }, '?allow=caution');
    const { runId } = (await request('POST', `${url}/trigger`)).answer;
    expect(runId).toEqual(expect.any(String));
    const refused = await restore(1, '?allow=caution&dryRun=true');
    expect(refused).toMatchObject({ status: 409, answer: { class: 'breaking', revision: 5 } });
    expect(refused.answer.findings.map(({ path }: { path: string }) => path)).toContain('steps.later');
    expect((await restore(1, '?allow=caution,breaking&dryRun=true')).status).toBe(200);
  });

  it.each([
    ['an unknown revision', `${url}/revisions/99/restore`, 404, 'unknown_revision'],
    ['the newest revision', `${url}/revisions/5/restore`, 409, 'revision_in_force'],
  ])('of %s is refused, by name', async (_, path, statusCode, reason) => {
    expect((await request('POST', path)).answer).toMatchObject({ statusCode, reason });
  });

  it('is no change if the manifest in force is the same', async () => {
    await put({ ...reordered, version: '2' }, '?allow=breaking,caution');
    await put({ ...reordered, version: '3' });
    await put({ ...reordered, version: '2' }, '?allow=rollback');
    const { revision } = await newest();
    expect(await restore(revision - 2)).toMatchObject({ status: 200, answer: { action: 'unchanged', revision } });
  });

  it('has the secrets that were written out in it, though they are in force no more', async () => {
    const { shop, ...triggers } = ORDERS.triggers;
    const { charge, ...steps } = withoutAnnounce;
    const { revision: earlier } = await newest();
    await put({ ...ORDERS, version: '4', triggers, steps }, '?allow=breaking,caution,access');
    const { status } = await restore(earlier, '?allow=breaking,caution');
    expect([status, (await newest()).revision]).toEqual([200, earlier + 2]);
    expect([shop.type, charge.type]).toEqual(['webhook', 'HttpRequest']);
    expect((await dashboard.app.inject(orderDelivery('{"order":3}'))).statusCode).toBe(200);
  });

  it('is an intervention by its name, and its plan is none', async () => {
    await restore(1, '?dryRun=true');
    const { answer } = await request('GET', `/flows/api/activity?target=${ORDERS_ID}&action=restoreRevision&take=1`);
    expect(answer).toMatchObject([
      { action: 'restoreRevision', details: { allow: 'breaking,caution' }, outcome: 'done', statusCode: 200 },
    ]);
    expect(answer[0].details.revision).toMatch(/^\d+$/);
  });
});
