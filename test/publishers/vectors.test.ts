import { beforeAll, describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import { certificateAt } from './certificates.ts';
import { type Answered, type Gateway, NOW, startGateway } from './gateway.ts';
import { answeredStatus, bodyOf, isAccepted, isHandshake, PUBLISHED_SCHEMES, VECTORS, type Vector } from './vectors.ts';

const slugOf = (vector: Vector) => `vector-${VECTORS.indexOf(vector)}`;

let gateway: Gateway;
/** According to the records. */
let startedRuns = 0;
beforeAll(async () => {
  const triggers = Object.fromEntries(VECTORS.map((vector) => [slugOf(vector), inputsOf(vector)]));
  // In place of the publishers: returns certificates, and 200 for a confirmation.
  const fetchFromPublisher = (url: string) =>
    url.includes('Action=ConfirmSubscription') ? Promise.resolve('') : certificateAt(url);
  gateway = await startGateway({ keepsAll: true, triggers, extensions: { fetchFromPublisher } });
});

function inputsOf({ scheme, key, keyPrevious, url, toleranceSeconds, sandbox }: Vector): WebhookInputs {
  return {
    webhookSignatureScheme: scheme,
    webhookHmacKey: key,
    webhookHmacKeyPrevious: keyPrevious,
    webhookPublicUrl: url,
    webhookReplayToleranceSeconds: toleranceSeconds,
    webhookSandbox: sandbox,
  };
}

function deliver(vector: Vector): Promise<Answered> {
  gateway.setNow(vector.now === undefined ? NOW : vector.now * 1000);
  return gateway.deliver(slugOf(vector), { method: vector.method, headers: vector.headers, body: bodyOf(vector) });
}

/** Events with this number about this delivery, among the newest lines. */
function eventsOf(deliveryId: string, { eventId, since }: { eventId: number; since: number }): unknown[] {
  const newest = gateway.logged.slice(since);
  return newest.filter((line) => line.includes(deliveryId) && line.includes(`"eventId":${eventId},`));
}

const REFUSED = { status: 401, reason: expect.stringMatching(/^((signature|timestamp)_|verifier_error$)/) };

const UNJUDGED = { status: 503, reason: 'verification_unavailable' };
const refusalOf = ({ name }: Vector) => (name === 'certificate-that-is-not-there' ? UNJUDGED : REFUSED);

const ANSWERED = PUBLISHED_SCHEMES.filter(({ name }) => VECTORS.some(({ scheme }) => scheme === name));

describe.each(ANSWERED)('$name', ({ name }) => {
  const own = VECTORS.filter(({ scheme }) => scheme === name);

  it.each(own)('answers the known request "$name" over a socket as the publisher’s rules say', async (vector) => {
    const since = gateway.logged.length;
    const answer = await deliver(vector);
    const record = await gateway.latestDelivery();
    const startsRun = record.runId !== null;
    if (startsRun) startedRuns += 1;
    expect({ status: answer.status, reason: record.reason, triggerKey: record.triggerKey, startsRun }).toEqual({
      ...(isAccepted(vector) || isHandshake(vector)
        ? { status: answeredStatus(vector), reason: null }
        : refusalOf(vector)),
      triggerKey: slugOf(vector),
      startsRun: isAccepted(vector) && !isHandshake(vector),
    });
    const usedPreviousKey = isAccepted(vector) && vector.usedPreviousKey === true;
    expect(record).toMatchObject({ scheme: name, usedPreviousKey });
    expect(eventsOf(record.id, { eventId: 4010, since })).toHaveLength(usedPreviousKey ? 1 : 0);
  });
});

it('sends every known request, and knows rotated keys among them', () => {
  const names = new Set(BUILT_IN_SCHEMES.map(({ name }) => name));
  expect(VECTORS.filter(({ scheme }) => !names.has(scheme))).toEqual([]);
  expect(VECTORS.filter(({ usedPreviousKey }) => usedPreviousKey === true).length).toBeGreaterThan(0);
});

it.each(VECTORS.filter((it) => it.toleranceSeconds !== undefined && it.valid && !isHandshake(it)))(
  'refuses $scheme "$name" when it comes a second time',
  async (vector) => {
    const again = await deliver(vector);
    expect([again.status, (await gateway.latestDelivery()).reason]).toEqual([409, 'nonce_replayed']);
  },
);

it('starts the runs that its records name, and no others', async () => {
  expect(await gateway.countRuns()).toBe(startedRuns);
});
