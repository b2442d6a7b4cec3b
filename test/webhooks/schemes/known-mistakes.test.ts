import { createHash, createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { findScheme } from '../../../src/webhooks/schemes/resolve.ts';
import { type SigningRequest, signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { builtIn, deliveryOf, judge, KEYS, NOW, received, settingsOf } from './fixtures.ts';

const FORM_TYPE = 'application/x-www-form-urlencoded';
const TWILIO_URL = 'https://hooks.example.com/in';

function signed(name: string, parts: Partial<SigningRequest> = {}) {
  return signDelivery({
    spec: builtIn(name),
    key: KEYS[name] ?? '',
    body: Buffer.from('{"a":1}'),
    url: TWILIO_URL,
    timestampMs: NOW,
    deliveryId: 'id-1',
    contentType: 'application/json',
    ...parts,
  });
}

function judgeAs(name: string, delivery: Parameters<typeof judge>[1]) {
  return judge({ inputs: { webhookSignatureScheme: name }, key: KEYS[name] }, delivery);
}

/** Signs for Twilio with code other than the scheme's. */
function twilioSignature(text: string): string {
  return createHmac('sha1', KEYS.Twilio ?? '')
    .update(text)
    .digest('base64');
}

describe('what others got wrong', () => {
  it('reads the signature of Teams from Authorization, a header that is redacted only afterwards', async () => {
    expect(await judgeAs('MicrosoftTeams', received(signed('MicrosoftTeams')))).toMatchObject({ passed: true });
  });

  it('decodes the key of Teams from base64 instead of taking its text', async () => {
    const key = KEYS.MicrosoftTeams ?? '';
    const body = '{"a":1}';
    const withText = `HMAC ${createHmac('sha256', key).update(body).digest('base64')}`;
    const withBytes = `HMAC ${createHmac('sha256', Buffer.from(key, 'base64')).update(body).digest('base64')}`;
    const headers = (authorization: string) => ({ authorization });
    expect(await judgeAs('MicrosoftTeams', deliveryOf({ body, headers: headers(withText) }))).toMatchObject({
      reason: 'signature_mismatch',
    });
    expect(await judgeAs('MicrosoftTeams', deliveryOf({ body, headers: headers(withBytes) }))).toMatchObject({
      passed: true,
    });
  });

  it('verifies bodies that are no JSON: forms, text, bytes, nothing', async () => {
    for (const body of ['a=1&b=2', 'plain', Buffer.from([0xff, 0x00]), '']) {
      const delivery = received(signed('GitHub', { body: Buffer.from(body), contentType: FORM_TYPE }));
      expect(await judgeAs('GitHub', delivery)).toMatchObject({ passed: true });
    }
  });

  it('verifies the decoded fields of a Twilio form, the empty value as its name alone', async () => {
    const signature = twilioSignature(`${TWILIO_URL}AC1bd e`);
    const headers = { 'content-type': `${FORM_TYPE}; charset=utf-8`, 'x-twilio-signature': signature };
    const delivery = deliveryOf({ requestUrl: TWILIO_URL, headers, body: 'b=&d=+e&C=1&A=' });
    expect(await judgeAs('Twilio', delivery)).toMatchObject({ passed: true });
  });

  it('signs repeated names of a Twilio form sorted by value, equal values once, upper case before lower', async () => {
    const headers = { 'content-type': FORM_TYPE, 'x-twilio-signature': twilioSignature(`${TWILIO_URL}Bz1a1a10a2`) };
    const delivery = deliveryOf({ requestUrl: TWILIO_URL, headers, body: 'a=2&a=10&Bz=1&a=1&a=2' });
    expect(await judgeAs('Twilio', delivery)).toMatchObject({ passed: true });
  });

  describe('a Twilio body that is not a form', () => {
    const body = '{"a":1}';
    const hash = createHash('sha256').update(body).digest('hex');
    const bound = `${TWILIO_URL}?bodySHA256=${hash}`;
    const json = (url: string, parts: { body?: string; contentType?: string } = {}) =>
      deliveryOf({
        requestUrl: url,
        body: parts.body ?? body,
        headers: {
          'content-type': parts.contentType ?? 'application/json',
          'x-twilio-signature': twilioSignature(url),
        },
      });

    it('passes with its hash in the signed URL, in either case', async () => {
      expect(await judgeAs('Twilio', json(bound))).toMatchObject({ passed: true });
      expect(await judgeAs('Twilio', json(`${TWILIO_URL}?bodySHA256=${hash.toUpperCase()}`))).toMatchObject({
        passed: true,
      });
    });

    it('is refused without a hash: the URL alone would let any body pass', async () => {
      expect(await judgeAs('Twilio', json(TWILIO_URL))).toMatchObject({ passed: false, reason: 'signature_malformed' });
      const untyped = await judgeAs('Twilio', json(TWILIO_URL, { contentType: '' }));
      expect(untyped).toMatchObject({ passed: false, reason: 'signature_malformed' });
    });

    it('is refused if it does not match the hash, even as an empty form', async () => {
      for (const other of ['{"a":2}', '']) {
        for (const contentType of ['application/json', FORM_TYPE]) {
          expect(await judgeAs('Twilio', json(bound, { body: other, contentType }))).toMatchObject({
            passed: false,
            reason: 'signature_mismatch',
          });
        }
      }
    });

    it('is refused when only one of two hashes is its own', async () => {
      const twice = `${bound}&bodySHA256=${'0'.repeat(64)}`;
      expect(await judgeAs('Twilio', json(twice))).toMatchObject({ passed: false, reason: 'signature_mismatch' });
    });
  });

  it.each(['Square', 'Twilio'])(
    'verifies the configured public URL of %s, not the one behind the proxy',
    async (name) => {
      const { headers, body, url } = signed(name, { body: Buffer.from('a=1'), contentType: FORM_TYPE });
      const delivery = deliveryOf({ headers, body, requestUrl: 'http://10.0.0.7:3000/rewritten', path: '/rewritten' });
      const inputs = { webhookSignatureScheme: name };
      expect(await judge({ inputs, key: KEYS[name] }, delivery)).toMatchObject({ passed: false });
      expect(await judge({ inputs: { ...inputs, webhookPublicUrl: url }, key: KEYS[name] }, delivery)).toMatchObject({
        passed: true,
      });
    },
  );

  it.each(['GitHubLegacy', 'Twilio'])(
    'refuses %s as long as SHA-1 is switched off, with its own reason',
    async (name) => {
      const settings = settingsOf({}, { allowLegacySha1: false });
      const verdict = await judge(
        { inputs: { webhookSignatureScheme: name }, key: KEYS[name], settings },
        received(signed(name)),
      );
      expect(verdict).toMatchObject({ passed: false, reason: 'sha1_not_allowed', evidence: { isVerified: false } });
    },
  );

  it.each(['Stripe', 'Calendly', 'Slack', 'Zoom', 'Linear', 'Mailgun', 'StandardWebhooks'])(
    'finds the timestamp of %s where the publisher signs it',
    async (name) => {
      const verdict = await judgeAs(name, received(signed(name)));
      expect(verdict.evidence?.signedTimestamp?.ms).toBe(NOW);
    },
  );

  it.each(['GitHub', 'Bitbucket', 'Shopify', 'Twilio', 'Square', 'Dropbox', 'MicrosoftTeams', 'Atlassian', 'Generic'])(
    'takes no unsigned header for a timestamp of %s',
    async (name) => {
      const delivery = received(signed(name));
      const unsigned = { 'x-webhook-timestamp': '1', 'x-shopify-triggered-at': '1', 'webhook-timestamp': '1' };
      const verdict = await judgeAs(name, { ...delivery, headers: { ...delivery.headers, ...unsigned } });
      expect(verdict.passed).toBe(true);
      expect(verdict.evidence).not.toHaveProperty('signedTimestamp');
    },
  );

  it('ignores an unsigned timestamp header if there is a signed timestamp', async () => {
    for (const name of ['Stripe', 'Linear', 'Mailgun']) {
      const delivery = received(signed(name));
      const headers = { ...delivery.headers, 'linear-timestamp': '1', 'x-webhook-timestamp': '1' };
      const verdict = await judgeAs(name, { ...delivery, headers });
      expect(verdict.evidence?.signedTimestamp?.ms).toBe(NOW);
    }
  });
});

describe('Mailgun', () => {
  const token = 'a'.repeat(50);
  const digestOf = (text: string) =>
    createHmac('sha256', KEYS.Mailgun ?? '')
      .update(text)
      .digest('hex');
  const json = (signature: unknown) =>
    deliveryOf({
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ signature, 'event-data': {} }),
    });
  const timestamp = '1700000000';

  it('refuses a signature whose characters moved from the token to the timestamp', async () => {
    const digits = `1${'0'.repeat(49)}`;
    const signature = digestOf(`${timestamp}${digits}`);
    expect(await judgeAs('Mailgun', json({ timestamp, token: digits, signature }))).toMatchObject({ passed: true });
    for (const shift of [1, 2, 40]) {
      const shifted = { timestamp: `${timestamp}${digits.slice(0, shift)}`, token: digits.slice(shift), signature };
      expect((await judgeAs('Mailgun', json(shifted))).passed, `by ${shift}`).toBe(false);
    }
    const back = { timestamp: timestamp.slice(0, 9), token: `0${digits}`, signature };
    expect((await judgeAs('Mailgun', json(back))).passed).toBe(false);
  });

  it('refuses a signed timestamp that is not ten digits', async () => {
    for (const wrong of ['17000000.0', '1e00000000', '          ', '-170000000', '17000000001', '170000000']) {
      const verdict = await judgeAs(
        'Mailgun',
        json({ timestamp: wrong, token, signature: digestOf(`${wrong}${token}`) }),
      );
      expect(verdict, wrong).toMatchObject({ passed: false, reason: 'timestamp_malformed' });
    }
  });

  it('refuses a signed token that is not fifty characters', async () => {
    for (const wrong of ['a'.repeat(49), 'a'.repeat(51), '']) {
      const verdict = await judgeAs(
        'Mailgun',
        json({ timestamp, token: wrong, signature: digestOf(`${timestamp}${wrong}`) }),
      );
      expect(verdict).toMatchObject({ passed: false, reason: 'signature_malformed' });
    }
  });

  it('names the signed bytes, which stay the same whatever the body becomes', async () => {
    const signature = digestOf(`${timestamp}${token}`);
    const first = await judgeAs('Mailgun', json({ timestamp, token, signature }));
    const replay = await judgeAs('Mailgun', json({ timestamp, token, signature, more: 'of the attacker’s' }));
    const expected = createHash('sha256').update(`${timestamp}${token}`).digest('hex');
    expect(first.evidence?.signedBytesSha256).toBe(expected);
    expect(replay.evidence?.signedBytesSha256).toBe(expected);
  });

  it('refuses a delivery without token, without timestamp, or with neither', async () => {
    const signature = digestOf(`${timestamp}${token}`);
    expect(await judgeAs('Mailgun', json({ timestamp, signature }))).toMatchObject({ reason: 'signature_malformed' });
    expect(await judgeAs('Mailgun', json({ token, signature }))).toMatchObject({ reason: 'timestamp_missing' });
    expect(await judgeAs('Mailgun', json({ signature }))).toMatchObject({ passed: false });
    expect(await judgeAs('Mailgun', json(null))).toMatchObject({ reason: 'signature_missing' });
  });
});

describe('StandardWebhooks', () => {
  it('refuses an id with a dot, which could lend its end to the timestamp', async () => {
    const key = Buffer.alloc(24, 7);
    const headers = (id: string, timestamp: string) => ({
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${createHmac('sha256', key).update('a.1700000000.1.{}').digest('base64')}`,
    });
    const honest = deliveryOf({ headers: headers('a', '1700000000'), body: '1.{}' });
    const spliced = deliveryOf({ headers: headers('a.1700000000', '1'), body: '{}' });
    expect(await judgeAs('StandardWebhooks', honest)).toMatchObject({ passed: true });
    expect(await judgeAs('StandardWebhooks', spliced)).toMatchObject({ passed: false, reason: 'signature_malformed' });
  });

  it.each(['id', 'timestamp'])(
    'refuses two families that sign another %s: each alone would be a delivery',
    async (role) => {
      const { headers, ...delivery } = received(signed('StandardWebhooks'));
      const both = ['id', 'timestamp', 'signature'].map((name) => [`svix-${name}`, headers[`webhook-${name}`] ?? '']);
      const same = { ...headers, ...Object.fromEntries(both) };
      expect(await judgeAs('StandardWebhooks', { ...delivery, headers: same })).toMatchObject({ passed: true });
      const apart = { ...same, [`svix-${role}`]: '1700000001' };
      const { 'svix-signature': _, ...unsigned } = apart;
      expect(await judgeAs('StandardWebhooks', { ...delivery, headers: unsigned })).toMatchObject({ passed: true });
      expect(await judgeAs('StandardWebhooks', { ...delivery, headers: apart })).toMatchObject({
        reason: 'signature_malformed',
      });
    },
  );

  it('does not mix the headers of two families', async () => {
    const delivery = received(signed('StandardWebhooks'));
    const { 'webhook-id': id, 'webhook-timestamp': timestamp, ...rest } = delivery.headers;
    const headers = { ...rest, 'svix-id': id ?? '', 'svix-timestamp': timestamp ?? '' };
    expect(await judgeAs('StandardWebhooks', { ...delivery, headers })).toMatchObject({ reason: 'timestamp_missing' });
  });
});

describe('Atlassian', () => {
  const body = '{"a":1}';
  const signedWith = (algorithm: string, prefix: string) =>
    deliveryOf({
      body,
      headers: {
        'x-hub-signature': `${prefix}${createHmac(algorithm, KEYS.Atlassian ?? '')
          .update(body)
          .digest('hex')}`,
      },
    });

  it.each(['sha256', 'sha384', 'sha512'])('accepts the method %s', async (method) => {
    expect(await judgeAs('Atlassian', signedWith(method, `${method}=`))).toMatchObject({ passed: true });
  });

  it.each([
    ['sha1', 'sha1='],
    ['md5', 'md5='],
    ['sha256', 'SHA256='],
    ['sha1', 'sha256='],
    ['sha256', ''],
  ])('refuses %s behind "%s"', async (algorithm, prefix) => {
    const verdict = await judgeAs('Atlassian', signedWith(algorithm, prefix));
    expect(verdict).toMatchObject({ passed: false, reason: 'signature_malformed' });
  });
});

it('knows built-in names in any case, and tells an unknown one so that the loader can warn of it', () => {
  const { schemes } = settingsOf();
  expect(['github', 'GITHUB', 'sViX', 'custom', 'StandardWebhooks'].every((name) => findScheme(schemes, name))).toBe(
    true,
  );
  expect(['GitHubb', '', 'constructor', '__proto__'].some((name) => findScheme(schemes, name))).toBe(false);
});
