import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { eventually } from '../e2e/service.ts';
import type { Attack } from './attack.ts';
import { type Answer, github, idOf, type Slug, stripe, type Target } from './target.ts';

/** Allows every change in a deploy: the attacker may deploy. */
const ALLOWED = { allow: 'access,caution' };

/** Sends an honest delivery, changes the trigger, and sends the delivery again with any header. */
const readmitted = (what: string, slug: Slug, ...changes: readonly object[]): Attack => ({
  rule: 'no deploy makes a known delivery new',
  attack: `${what}, and sends a captured delivery again`,
  async run(target) {
    const captured = slug === 'tolerated' ? stripe() : github();
    const before = await target.runsOf(slug);
    expect(await target.send(slug, captured)).toMatchObject({ status: 200 });
    for (const inputs of changes) {
      expect(await target.deploy(slug, inputs, ALLOWED)).toMatchObject({ status: 200 });
    }
    expect(await target.send(slug, captured)).toMatchObject({ status: 409, reason: 'nonce_replayed' });
    const headers = { ...captured.headers, 'x-other': randomUUID() };
    expect(await target.send(slug, { ...captured, headers })).toMatchObject({ status: 409 });
    expect(await target.runsOf(slug)).toBe(before + 1);
  },
});

/** An expression about the delivery was stopped by its limit of steps, which is a count, not a time. */
async function expectStopped(target: Target, { body: { deliveryId } }: Answer): Promise<void> {
  const { body } = await target.ask(`webhooks/${deliveryId}`, { by: 'reader' });
  expect(JSON.stringify(body.gateResults)).toMatch(/takes more work than is allowed over this data \(\d+ steps\)/);
}

const trigger = (target: Target, key: string, body: unknown) =>
  target.ask(`flows/${idOf('push')}/trigger`, { by: 'operator', headers: { 'idempotency-key': key }, body });

export const ONE_RUN: readonly Attack[] = [
  readmitted('names another nonce header', 'renamed', { webhookNonceHeader: 'X-Other' }),
  readmitted('names a nonce header where none was named', 'added', { webhookNonceHeader: 'X-Other' }),
  readmitted('removes the nonce header', 'removed', { webhookNonceHeader: undefined }),
  readmitted('widens the tolerance', 'tolerated', { webhookReplayToleranceSeconds: 600 }),
  readmitted(
    'switches the tolerance off and on again',
    'tolerated',
    { webhookReplayToleranceSeconds: 0 },
    { webhookReplayToleranceSeconds: 300 },
  ),
  {
    rule: 'a delivery is accepted once',
    attack: 'sends the same delivery twenty times at once',
    async run(target) {
      const before = await target.runsOf('push');
      const captured = github();
      const answers = await Promise.all(Array.from({ length: 20 }, () => target.send('push', captured)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)]);
      expect(await target.runsOf('push')).toBe(before + 1);
    },
  },
  {
    rule: 'a delivery is accepted once',
    attack: 'sends a captured delivery to the id of the flow, and in other letters',
    async run(target) {
      const before = await target.runsOf('push');
      const captured = github();
      expect(await target.send('push', captured)).toMatchObject({ status: 200 });
      for (const address of [idOf('push'), idOf('push').toUpperCase(), 'PUSH', 'push/', 'pu%73h', 'push?again=1']) {
        const url = `${target.service().url}/flows/api/webhook/${address}`;
        const { status } = await fetch(url, { method: 'POST', ...captured });
        expect([401, 404, 409]).toContain(status);
      }
      expect(await target.runsOf('push')).toBe(before + 1);
    },
  },
  {
    rule: 'a delivery is accepted once',
    attack: 'sends a captured delivery after the service was killed and started again',
    async run(target) {
      const captured = github();
      expect(await target.send('push', captured)).toMatchObject({ status: 200 });
      await target.restart('SIGKILL');
      expect(await target.send('push', captured)).toMatchObject({ status: 409, reason: 'nonce_replayed' });
    },
  },
  {
    rule: 'a known idempotency key with another body is no duplicate',
    attack: 'sends another body under the key of a delivery',
    async run(target) {
      const key = { 'idempotency-key': randomUUID() };
      const first = await target.send('push', github('{"order":1}', key));
      expect(first).toMatchObject({ status: 200 });
      const before = await target.runsOf('push');
      expect(await target.send('push', github('{"order":2}', key))).toMatchObject({
        status: 409,
        reason: 'idempotency_conflict',
      });
      expect(await target.runsOf('push')).toBe(before);
    },
  },
  {
    rule: 'a known idempotency key with another body is no duplicate',
    attack: 'starts a run by hand with another body under a key',
    async run(target) {
      const key = randomUUID();
      const first = await trigger(target, key, { order: 1 });
      expect(await trigger(target, key, { order: 1 })).toMatchObject({
        status: 200,
        body: { runId: first.body.runId },
      });
      expect(await trigger(target, key, { order: 2 })).toMatchObject({ status: 409, reason: 'idempotency_conflict' });
    },
  },
  {
    rule: 'an unverified claim never stands against a verified one',
    attack: 'under Audit, sends a forgery with the nonce and the idempotency key of an event before the event',
    async run(target) {
      const claimed = { 'x-github-delivery': randomUUID(), 'idempotency-key': randomUUID() };
      const forged = await target.send('audited', github('{"amount":1}', claimed, 'a wrong key'));
      expect(forged).toMatchObject({ status: 200 });
      const honest = await target.send('audited', github('{"amount":9}', claimed));
      expect(honest).toMatchObject({ status: 200 });
      expect(honest.body.duplicate).not.toBe(true);
      expect(honest.body.runId).not.toBe(forged.body.runId);
    },
  },
  {
    rule: 'an unverified claim never stands against a verified one',
    attack: 'under Audit, sends a forgery with the id of an event before the event, and reads who had it',
    async run(target) {
      const body = JSON.stringify({ id: randomUUID(), amount: 9 });
      const forged = await target.send('events', stripe(body, 'a wrong key'));
      expect(forged).toMatchObject({ status: 200 });
      const honest = await target.send('events', stripe(body));
      expect(honest.body.duplicate).not.toBe(true);
      expect(honest.body.runId).not.toBe(forged.body.runId);
      const again = await target.send('events', stripe(body, 'a wrong key'));
      expect(again.body.runId).not.toBe(honest.body.runId);
      expect(await target.send('events', stripe(body))).toMatchObject({
        body: { runId: honest.body.runId, duplicate: true },
      });
    },
  },
  {
    rule: 'an event starts one run',
    attack: 'sends an event twenty times at once, each signed anew',
    async run(target) {
      const before = await target.runsOf('filtered');
      const id = randomUUID();
      const sent = Array.from({ length: 20 }, (_, n) => github(JSON.stringify({ id, n, list: [], pass: true })));
      const answers = await Promise.all(sent.map((each) => target.send('filtered', each)));
      expect(new Set(answers.map(({ body }) => body.runId)).size).toBe(1);
      expect(await target.runsOf('filtered')).toBe(before + 1);
    },
  },
  {
    rule: 'an expression that cannot be evaluated drops nothing, and ends within its budget',
    attack: 'makes a filter compare each of many values with each',
    async run(target) {
      const before = await target.runsOf('filtered');
      const list = Array.from({ length: 20_000 }, (_, n) => n);
      for (let n = 0; n < 20; n += 1) {
        const answer = await target.send('filtered', github(JSON.stringify({ id: randomUUID(), list, pass: false })));
        expect(answer).toMatchObject({ status: 200, body: { runId: expect.any(String) } });
        await expectStopped(target, answer);
      }
      expect(await target.runsOf('filtered')).toBe(before + 20);
    },
  },
  {
    rule: 'an unverified claim never stands against a verified one',
    attack: 'under Audit, names the key of deliveries that share a run, to join it, to fill it, and to have it joined',
    async run(target) {
      const body = (n: number) => JSON.stringify({ sku, n, list: [] });
      const sku = randomUUID();
      const forge = (n: number) => target.send('coalesced', github(body(n), {}, 'a wrong key'));
      const send = (n: number) => target.send('coalesced', github(body(n)));
      const forged = await forge(1);
      const honest = await send(2);
      expect(honest.body).toEqual({ runId: expect.any(String), deliveryId: expect.any(String) });
      for (let n = 3; n < 10; n += 1) expect((await forge(n)).body.runId).not.toBe(honest.body.runId);
      expect((await send(10)).body).toMatchObject({ runId: honest.body.runId, coalesced: true });
      expect(forged.body.runId).not.toBe(honest.body.runId);
      await send(11);
      const ended = await eventually(
        () => target.ask(`runs/${honest.body.runId}`, { by: 'reader' }),
        (answer) => answer.body.status === 'Succeeded',
      );
      expect(ended.body.triggerBody).toMatchObject({ n: 11 });
      const control = await target.ask(`runs/${honest.body.runId}/control`, { by: 'reader' });
      expect(control.body.deliveries).toBe(3);
    },
  },
  {
    rule: 'a delivery is accepted once',
    attack: 'sends a captured delivery twenty times at once into a run that waits for more',
    async run(target) {
      const body = JSON.stringify({ sku: randomUUID(), list: [] });
      const captured = github(body);
      const inputs = { webhookEnforcementMode: 'Enforce' };
      expect(await target.deploy('coalesced', inputs, ALLOWED)).toMatchObject({ status: 200 });
      const answers = await Promise.all(Array.from({ length: 20 }, () => target.send('coalesced', captured)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)]);
      const { runId } = answers.find(({ status }) => status === 200)?.body ?? {};
      expect((await target.ask(`runs/${runId}/control`, { by: 'reader' })).body.deliveries).toBe(1);
    },
  },
  {
    rule: 'an expression that cannot be evaluated drops nothing, and ends within its budget',
    attack: 'makes the key of a shared run compare each of many values with each',
    async run(target) {
      const before = await target.runsOf('coalesced');
      const list = Array.from({ length: 20_000 }, (_, n) => n);
      for (let n = 0; n < 20; n += 1) {
        const answer = await target.send('coalesced', github(JSON.stringify({ sku: 'same', list, n })));
        expect(answer).toMatchObject({ status: 200, body: { runId: expect.any(String) } });
        await expectStopped(target, answer);
      }
      expect(await target.runsOf('coalesced')).toBe(before + 20);
    },
  },
];
