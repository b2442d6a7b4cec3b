import { createHmac, generateKeyPairSync } from 'node:crypto';
import { rootCertificates } from 'node:tls';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { GateConfigurationError } from '../../../src/webhooks/gate.ts';
import { signatureGate } from '../../../src/webhooks/gates/signature.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { encodeDigest } from '../../../src/webhooks/schemes/values.ts';
import {
  bodyFor,
  builtIn,
  contentTypeFor,
  deliveryOf,
  judge,
  KEYS,
  NOW,
  OTHER_KEYS,
  OTHER_SIGNING_KEYS,
  received,
  SIGNABLE_SCHEMES,
  SIGNING_KEYS,
  settingsOf,
  triggerOf,
} from '../schemes/fixtures.ts';

const KEY = 'key';

function signedBy(name: string, parts: { key?: string; url?: string; timestampMs?: number } = {}) {
  return received(
    signDelivery({
      spec: builtIn(name),
      key: parts.key ?? SIGNING_KEYS[name] ?? '',
      body: bodyFor(builtIn(name), '{"a":1}'),
      url: parts.url ?? 'https://hooks.example.com/in',
      timestampMs: parts.timestampMs ?? NOW,
      deliveryId: 'id-1',
      contentType: contentTypeFor(builtIn(name)),
    }),
  );
}

describe('a trigger has no signature gate', () => {
  it.each([undefined, '', 'GitHubb', 'none'])('when its scheme is %j', (webhookSignatureScheme) => {
    const inputs = { webhookSignatureScheme, webhookHmacKey: KEY };
    expect(signatureGate.prepare(triggerOf(inputs, { current: KEY }), settingsOf())).toBeUndefined();
  });
});

describe('a public key is no secret', () => {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString();
  const jwk = JSON.stringify(publicKey.export({ format: 'jwk' }));
  const der = publicKey.export({ type: 'spki', format: 'der' });
  it.each([
    ['PEM', pem],
    ['PEM in base64', Buffer.from(pem).toString('base64')],
    ['a JSON Web Key', jwk],
    ['a JSON Web Key in hex', Buffer.from(jwk).toString('hex')],
    ['SPKI', der.toString('base64')],
    ['a certificate behind its name, in base64', Buffer.from(`Zoë\n${rootCertificates[0]}`).toString('base64')],
    ['a key of SSH', 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI a@b'],
    ['a key of Standard Webhooks', 'whpk_AAAA'],
  ])('%s', (_form, current) => {
    for (const webhookSignatureScheme of ['Generic', 'Slack']) {
      const prepare = () => signatureGate.prepare(triggerOf({ webhookSignatureScheme }, { current }), settingsOf());
      expect(prepare).toThrow('is a public key');
    }
  });

  it.each([
    ['hex', 'a'.repeat(64)],
    ['base64 of JSON', Buffer.from('{"secret":"of some other kind of publisher"}').toString('base64')],
    ['a list', '["a","b"]'],
    ['whsec', `whsec_${Buffer.alloc(32, 7).toString('base64')}`],
  ])('but a secret is: %s', (_form, current) => {
    const inputs = { webhookSignatureScheme: 'Slack' };
    expect(signatureGate.prepare(triggerOf(inputs, { current }), settingsOf())).toBeDefined();
  });
});

describe('what cannot be verified is refused', () => {
  it('when no key is configured', async () => {
    const verdict = await judge({ inputs: { webhookSignatureScheme: 'Stripe' } }, signedBy('Stripe'));
    expect(verdict).toMatchObject({
      passed: false,
      reason: 'key_not_configured',
      evidence: { scheme: 'Stripe', isVerified: false, signedTimestamp: { ms: NOW } },
    });
  });

  it('when no key was learnt yet, where the publisher hands it over', async () => {
    const inputs = { webhookSignatureScheme: 'Asana', webhookLearnKey: true };
    const verdict = await judge({ inputs }, signedBy('Asana'));
    expect(verdict).toMatchObject({ passed: false, reason: 'key_not_configured', evidence: { isVerified: false } });
  });

  it('for the time being, when the learnt key is sealed with another store key', async () => {
    const learnedKeys = {
      find: () => undefined,
      isUnreadable: () => true,
      learn: async () => false,
      forget: async () => true,
    };
    const inputs = { webhookSignatureScheme: 'Asana', webhookLearnKey: true };
    const verdict = await judge({ inputs, settings: settingsOf({}, { learnedKeys }) }, signedBy('Asana'));
    expect(verdict).toMatchObject({
      passed: false,
      reason: 'verification_unavailable',
      detail: 'the learned key is sealed with another store key',
    });
  });

  it('when no key is configured and the trigger learns none, whatever was learnt before', async () => {
    const learnedKeys = {
      find: () => KEYS.Asana,
      isUnreadable: () => false,
      learn: async () => true,
      forget: async () => true,
    };
    const settings = settingsOf({}, { learnedKeys });
    const learning = { webhookSignatureScheme: 'Asana', webhookLearnKey: true };
    expect(await judge({ inputs: learning, settings }, signedBy('Asana'))).toMatchObject({ passed: true });
    const shut = { webhookSignatureScheme: 'Asana' };
    expect(await judge({ inputs: shut, settings }, signedBy('Asana'))).toMatchObject({
      passed: false,
      reason: 'key_not_configured',
      detail: expect.stringContaining('learns none without "webhookLearnKey": true'),
    });
  });

  it('when a previous key alone is configured', async () => {
    const inputs = { webhookSignatureScheme: 'GitHub' };
    const verdict = await judge({ inputs, previousKey: KEYS.GitHub }, signedBy('GitHub'));
    expect(verdict).toMatchObject({ passed: false, reason: 'key_not_configured' });
  });

  it('when the scheme signs with SHA-1 and that is switched off, whatever the key', async () => {
    const settings = settingsOf({}, { allowLegacySha1: false });
    for (const key of [undefined, KEYS.Twilio]) {
      const verdict = await judge({ inputs: { webhookSignatureScheme: 'Twilio' }, key, settings }, signedBy('Twilio'));
      expect(verdict).toMatchObject({ passed: false, reason: 'sha1_not_allowed' });
    }
  });
});

it('SHA-1 is allowed for the trigger that says so, where it is switched off for all', async () => {
  const settings = settingsOf({}, { allowLegacySha1: false });
  const inputs = { webhookSignatureScheme: 'GitHubLegacy' };
  const key = KEYS.GitHubLegacy;
  const judged = (webhookAllowSha1: boolean) =>
    judge({ inputs: { ...inputs, webhookAllowSha1 }, key, settings }, signedBy('GitHubLegacy'));
  expect(await judged(true)).toMatchObject({ passed: true });
  expect(await judged(false)).toMatchObject({ passed: false, reason: 'sha1_not_allowed' });
});

describe('a key that cannot be one is refused when the trigger is prepared', () => {
  const secret = 'not*base64*at*all';
  it.each<[string, WebhookInputs, { current?: string; previous?: string }, string]>([
    ['MicrosoftTeams', { webhookHmacKey: 'x' }, { current: secret }, 'webhookHmacKey'],
    ['MicrosoftTeams', { webhookSecret: 'x' }, { current: secret }, 'webhookSecret'],
    [
      'MicrosoftTeams',
      { webhookHmacKey: 'x', webhookHmacKeyPrevious: 'x' },
      { current: KEYS.MicrosoftTeams ?? '', previous: secret },
      'webhookHmacKeyPrevious',
    ],
    [
      'MicrosoftTeams',
      { webhookHmacKey: 'x', webhookSecretPrevious: 'x' },
      { current: KEYS.MicrosoftTeams ?? '', previous: secret },
      'webhookSecretPrevious',
    ],
    ['StandardWebhooks', { webhookHmacKey: 'x' }, { current: `whsec_${secret}` }, 'webhookHmacKey'],
    ['StandardWebhooks', { webhookHmacKey: 'x' }, { current: 'whsec_' }, 'webhookHmacKey'],
    ['StandardWebhooks', { webhookHmacKey: 'x' }, { current: `whpk_${secret}` }, 'webhookHmacKey'],
    ['StandardWebhooks', { webhookHmacKey: 'x' }, { current: 'whpk_AAAA' }, 'webhookHmacKey'],
    ['StandardWebhooks', { webhookHmacKey: 'x' }, { current: `whsk_${'A'.repeat(43)}=` }, 'webhookHmacKey'],
    ['Discord', { webhookHmacKey: 'x' }, { current: 'ab'.repeat(31) }, 'webhookHmacKey'],
    ['Discord', { webhookHmacKey: 'x' }, { current: 'ab'.repeat(33) }, 'webhookHmacKey'],
    ['Discord', { webhookHmacKey: 'x' }, { current: secret }, 'webhookHmacKey'],
    [
      'Discord',
      { webhookHmacKey: 'x', webhookHmacKeyPrevious: 'x' },
      { current: KEYS.Discord ?? '', previous: 'g'.repeat(64) },
      'webhookHmacKeyPrevious',
    ],
  ])('for %s in %j', (webhookSignatureScheme, inputs, keys, field) => {
    const prepare = () => signatureGate.prepare(triggerOf({ ...inputs, webhookSignatureScheme }, keys), settingsOf());
    expect(prepare).toThrow(GateConfigurationError);
    try {
      prepare();
    } catch (error) {
      expect(error).toMatchObject({ field });
      expect(String(error)).not.toContain(secret);
    }
  });

  it('but not for the padding of base64, which consoles leave out', async () => {
    const key = KEYS.MicrosoftTeams?.replace(/=+$/, '') ?? '';
    const verdict = await judge(
      { inputs: { webhookSignatureScheme: 'MicrosoftTeams' }, key },
      signedBy('MicrosoftTeams'),
    );
    expect(verdict).toMatchObject({ passed: true });
  });
});

describe('rotation', () => {
  const inputs = { webhookSignatureScheme: 'GitHub' };

  it('accepts either key and tells when the previous one was used', async () => {
    const keys = { key: 'new', previousKey: 'old' };
    const byNew = await judge({ inputs, ...keys }, signedBy('GitHub', { key: 'new' }));
    const byOld = await judge({ inputs, ...keys }, signedBy('GitHub', { key: 'old' }));
    expect(byNew).toMatchObject({ passed: true, evidence: { usedPreviousKey: false } });
    expect(byOld).toMatchObject({ passed: true, evidence: { usedPreviousKey: true } });
  });

  it('counts a key that is both as the current one', async () => {
    const verdict = await judge({ inputs, key: 'same', previousKey: 'same' }, signedBy('GitHub', { key: 'same' }));
    expect(verdict).toMatchObject({ passed: true, evidence: { usedPreviousKey: false } });
  });

  it('takes the present name of the key field and its legacy alias alike, and demands no key header', async () => {
    for (const field of ['webhookHmacKey', 'webhookSecret'] as const) {
      const verdict = await judge({ inputs: { ...inputs, [field]: KEY }, key: KEY }, signedBy('GitHub', { key: KEY }));
      expect(verdict).toMatchObject({ passed: true });
    }
  });
});

describe('the timestamp', () => {
  it('is given to later gates even when the signature is wrong', async () => {
    const key = OTHER_KEYS.Stripe;
    const verdict = await judge({ inputs: { webhookSignatureScheme: 'Stripe' }, key }, signedBy('Stripe'));
    expect(verdict).toMatchObject({
      reason: 'signature_mismatch',
      evidence: { isVerified: false, signedTimestamp: { text: '1700000000', ms: NOW } },
    });
  });

  const slack = (timestamp: string) => {
    const body = 'a=1';
    const digest = createHmac('sha256', KEY).update(`v0:${timestamp}:${body}`).digest('hex');
    return deliveryOf({
      body,
      headers: { 'x-slack-signature': `v0=${digest}`, 'x-slack-request-timestamp': timestamp },
    });
  };

  it.each(['abc', '1700000000.5', '-1', ' ', '1e9'])(
    'that is signed but no number (%j) is refused',
    async (timestamp) => {
      const verdict = await judge({ inputs: { webhookSignatureScheme: 'Slack' }, key: KEY }, slack(timestamp));
      expect(verdict).toMatchObject({
        passed: false,
        reason: 'timestamp_malformed',
        evidence: { isVerified: false, signedTimestamp: { text: timestamp, ms: Number.NaN } },
      });
    },
  );

  it('that is not signed is left to the replay gate, even when the trigger requires one', async () => {
    const inputs = { webhookSignatureScheme: 'GitHub', webhookRequireTimestamp: true };
    expect(await judge({ inputs, key: KEYS.GitHub }, signedBy('GitHub'))).toMatchObject({ passed: true });
  });

  it('of Linear may not be absent, nor outside the body', async () => {
    const body = '{"action":"create"}';
    const signature = createHmac('sha256', KEY).update(body).digest('hex');
    const headers = { 'linear-signature': signature, 'linear-timestamp': String(NOW) };
    const verdict = await judge(
      { inputs: { webhookSignatureScheme: 'Linear' }, key: KEY },
      deliveryOf({ body, headers }),
    );
    expect(verdict).toMatchObject({ passed: false, reason: 'timestamp_missing' });
  });
});

describe('the signed URL', () => {
  const behindProxy = (name: string, url: string, path: string) => {
    const { headers, body } = signedBy(name, { url });
    return deliveryOf({ headers, body, path, requestUrl: `http://10.0.0.7:3000${path}` });
  };

  it('is the service’s public URL with the path of the request, where the trigger has none', async () => {
    const delivery = behindProxy('Square', 'https://hooks.example.com/base/in/x?a=1', '/in/x?a=1');
    const settings = settingsOf({}, { publicUrl: 'https://hooks.example.com/base/' });
    const inputs = { webhookSignatureScheme: 'Square' };
    expect(await judge({ inputs, key: KEYS.Square, settings }, delivery)).toMatchObject({ passed: true });
  });

  it('is the trigger’s own before the service’s', async () => {
    const delivery = behindProxy('Square', 'https://own.example.com/hook?a=1', '/in/x?a=1');
    const settings = settingsOf({}, { publicUrl: 'https://hooks.example.com' });
    const inputs = { webhookSignatureScheme: 'Square', webhookPublicUrl: 'https://own.example.com/hook' };
    expect(await judge({ inputs, key: KEYS.Square, settings }, delivery)).toMatchObject({ passed: true });
  });

  it('is what the request tells, where nothing is configured', async () => {
    const inputs = { webhookSignatureScheme: 'Square' };
    expect(await judge({ inputs, key: KEYS.Square }, signedBy('Square'))).toMatchObject({ passed: true });
  });

  it('is named in the refusal without what it may hide', async () => {
    const delivery = deliveryOf({
      headers: { 'x-square-hmacsha256-signature': Buffer.alloc(32).toString('base64') },
      requestUrl: 'https://user:hidden@h.example/in?token=hidden',
    });
    const verdict = await judge({ inputs: { webhookSignatureScheme: 'Square' }, key: KEY }, delivery);
    expect(verdict).toMatchObject({
      detail: 'no signature over the URL https://h.example/in matches a configured key',
    });
  });
});

describe('a refusal', () => {
  it.each(SIGNABLE_SCHEMES)(
    'of $name never tells the key nor the signature that would have been right',
    async (spec) => {
      const right = signedBy(spec.name);
      const secrets = [KEYS[spec.name] ?? '', ...digestsIn(right.headers, right.body)];
      await fc.assert(
        fc.asyncProperty(fc.string({ minLength: 1 }), async (body) => {
          const verdict = await judge(
            { inputs: { webhookSignatureScheme: spec.name }, key: KEYS[spec.name] },
            {
              ...signedBy(spec.name, { key: OTHER_SIGNING_KEYS[spec.name] ?? '' }),
              body: Buffer.concat([right.body, Buffer.from(body)]),
            },
          );
          const told = JSON.stringify(verdict);
          for (const secret of secrets) expect(told).not.toContain(secret);
        }),
        { numRuns: 10 },
      );
    },
  );
});

/** Every text in a signed delivery that could be a digest, in all encodings. */
function digestsIn(headers: Readonly<Record<string, string>>, body: Buffer): string[] {
  const text = `${Object.values(headers).join(' ')} ${body}`;
  const hex = text.match(/\b[0-9a-f]{40,64}\b/g) ?? [];
  const base64 = text.match(/[A-Za-z0-9+/]{27,43}=/g) ?? [];
  const digests = [...hex.map((it) => Buffer.from(it, 'hex')), ...base64.map((it) => Buffer.from(it, 'base64'))];
  return digests.flatMap((digest) =>
    (['hexLower', 'hexUpper', 'base64', 'base64Url'] as const).map((encoding) => encodeDigest(digest, encoding)),
  );
}
