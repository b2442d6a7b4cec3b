import { beforeAll, describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import type { Handshake } from '../../src/webhooks/schemes/handshake.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import type { SignatureVerifier } from '../../src/webhooks/schemes/spec.ts';
import { type Gateway, NOW, type Sent, startGateway } from './gateway.ts';
import { HANDSHAKES, type KnownHandshake } from './known-handshakes.ts';

/** A handshake request, not one in the answer to a delivery. */
type Known = KnownHandshake & { readonly request: NonNullable<KnownHandshake['request']> };

const MODES = ['Off', 'Audit', 'Enforce'] as const;
const known = HANDSHAKES.filter((it): it is Known => it.request !== undefined);
const answered = known.filter((it) => it.expect.mustNotContain === undefined);
const attacks = known.filter((it) => it.expect.mustNotContain !== undefined);
const slugOf = ({ scheme, name }: Known, mode: EnforcementMode) => `${scheme}-${name}-${mode}`.toLowerCase();

let gateway: Gateway;
beforeAll(async () => {
  const pairs = known.flatMap((it) => MODES.map((mode) => [slugOf(it, mode), inputsOf(it, mode)]));
  gateway = await startGateway({ keepsAll: true, triggers: Object.fromEntries(pairs) });
});

/** With a tolerance, so that a handshake mistaken for a delivery would use a nonce. */
function inputsOf({ scheme, key, verifyToken }: Known, mode: EnforcementMode): WebhookInputs {
  return {
    webhookSignatureScheme: scheme,
    // Asana's own handshake brings the key.
    ...(scheme === 'Asana' ? { webhookLearnKey: true } : { webhookHmacKey: key ?? 'some key' }),
    webhookVerifyToken: verifyToken,
    webhookEnforcementMode: mode,
    webhookReplayToleranceSeconds: 300,
  };
}

function ask(known: Known, mode: EnforcementMode, changed: Sent = {}) {
  gateway.setNow(known.now === undefined ? NOW : known.now * 1000);
  const { method, path, headers, body } = known.request;
  const query = path.includes('?') ? path.slice(path.indexOf('?')) : '';
  return gateway.deliver(slugOf(known, mode), { method, query, headers, ...(body && { body }), ...changed });
}

/** Lower case, as in the known requests. */
function signatureHeader({ scheme }: Known): string {
  const spec = BUILT_IN_SCHEMES.find(({ name }) => name === scheme);
  return spec?.headers[0]?.signature.toLowerCase() ?? '';
}

describe.each(MODES)('under %s', (mode) => {
  it.each(answered)('answers $scheme $name each time it is asked, starts no run and uses no nonce', async (known) => {
    const runsBefore = await gateway.countRuns();
    for (const _ of ['first', 'again']) {
      const answer = await ask(known, mode);
      expect(answer.status).toBe(200);
      const { bodyExact, bodyJson, headers = {} } = known.expect;
      if (bodyExact !== undefined) expect(answer.text).toBe(bodyExact);
      if (bodyJson === undefined) {
        // With a content type of its choice, a browser led here might run it.
        expect(answer.headers['content-type']).toMatch(/^text\/plain(;|$)/);
      } else {
        expect(answer.headers['content-type']).toMatch(/^application\/json(;|$)/);
        expect(JSON.parse(answer.text)).toEqual(bodyJson);
      }
      for (const [name, value] of Object.entries(headers)) expect(answer.headers[name]).toContain(value);
      expect(answer.headers['x-content-type-options']).toBe('nosniff');
      expect(await gateway.latestDelivery()).toMatchObject({ reason: null, rejected: false, runId: null });
    }
    expect(await gateway.countRuns()).toBe(runsBefore);
  });

  it.each(attacks)('does not fall for $scheme $name', async (attack) => {
    const runsBefore = await gateway.countRuns();
    const answer = await ask(attack, mode);
    expect(answer.status).toBe(401);
    expect(answer.text).not.toContain(attack.expect.mustNotContain);
    expect(await gateway.countRuns()).toBe(runsBefore);
  });

  const signed = known.filter((it) => signatureHeader(it) in it.request.headers);

  it.each(signed)('does not answer $scheme $name without its signature, nor with a wrong one', async (known) => {
    const runsBefore = await gateway.countRuns();
    const { headers } = known.request;
    const header = signatureHeader(known);
    const { [header]: signature = '', ...unsigned } = headers;
    const wrong = { ...headers, [header]: signature.replace(/.{8}$/, '00000000') };
    const right = await ask(known, mode);
    for (const [changed, reason] of [
      [unsigned, 'signature_missing'],
      [wrong, 'signature_mismatch'],
    ] as const) {
      const answer = await ask(known, mode, { headers: changed });
      expect(answer.status).toBe(401);
      expect(JSON.parse(answer.text)).toMatchObject({ reason });
      expect(answer.text).not.toContain(right.text);
    }
    expect(await gateway.countRuns()).toBe(runsBefore);
  });
});

it('asks every handshake that is known', () => {
  expect(answered.map(({ scheme, name }) => `${scheme} ${name}`)).toEqual([
    'Dropbox challenge',
    'Slack url_verification',
    'Slack ssl_check',
    'Zoom endpoint.url_validation',
    'Meta hub.challenge',
    'Discord ping',
    'Twitch webhook_callback_verification',
    'Asana X-Hook-Secret',
    'Trello HEAD',
    'Intercom HEAD',
  ]);
  expect(attacks.map(({ name }) => name)).toEqual(['signing-oracle-attack']);
});

it('counts a handshake that a verifier turns away as refused, whatever the status of the answer', async () => {
  const handshake: Handshake = {
    name: 'hello',
    method: 'GET',
    needsVerification: false,
    recognises: () => true,
    refuse: () => ({ statusCode: 204, reason: 'signature_malformed', detail: 'it brings no challenge' }),
    answer: () => undefined,
  };
  const verifier: SignatureVerifier = {
    name: 'Acme',
    handshakes: [handshake],
    verify: () => ({ outcome: 'verified' }),
  };
  const own = await startGateway({
    triggers: { acme: { webhookSignatureScheme: 'Acme' } },
    extensions: { verifiers: [verifier] },
  });
  expect((await own.deliver('acme', { method: 'GET' })).status).toBe(204);
  const metrics = await own.get('/metrics');
  expect(metrics).toMatch(/^webhook_received_total\{.*result="rejected".*\} 1$/m);
  expect(metrics).toMatch(/^webhook_rejected_total\{.*reason="signature_malformed"\} 1$/m);
});
