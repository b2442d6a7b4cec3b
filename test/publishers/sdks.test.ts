import { beforeAll, describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import { signDelivery } from '../../src/webhooks/schemes/sign.ts';
import { askBolt, askRivet } from '../oracles/publishers.ts';
import { type Answered, type Gateway, startGateway } from './gateway.ts';
import { SDKS, type Sdk, type Signed } from './sdks.ts';
import { PUBLISHED_SCHEMES, VECTORS } from './vectors.ts';

const PUBLIC_URL = 'https://hooks.example.com/in';
const slugOf = (sdk: Sdk) => `sdk-${SDKS.indexOf(sdk)}`;

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({
    keepsAll: true,
    triggers: Object.fromEntries(SDKS.map((sdk) => [slugOf(sdk), inputsOf(sdk)])),
  });
});

function inputsOf({ scheme, key }: Sdk): WebhookInputs {
  return {
    webhookSignatureScheme: scheme,
    webhookHmacKey: key,
    webhookPublicUrl: PUBLIC_URL,
    webhookReplayToleranceSeconds: 60,
  };
}

/** Some packages use the real time, so the service gets it too. */
function realTime(): Date {
  const at = new Date();
  gateway.setNow(at.getTime());
  return at;
}

function sign(sdk: Sdk): Promise<Signed> | Signed {
  const headers = { 'content-type': sdk.contentType, ...sdk.headers };
  return sdk.sign({ url: PUBLIC_URL, headers, body: sdk.body }, sdk.key, realTime());
}

/** Changes one signed byte: Mailgun signs its token, Adyen some members, the others the body. */
function flip(delivery: Signed, { scheme }: Sdk): Signed {
  const others: Record<string, (text: string) => string> = {
    Mailgun: flipToken,
    Adyen: (text) => text.replace('AUTHORISATION', 'AUTHORISATIOM'),
  };
  const change = others[scheme] ?? ((text: string) => text.replace('o', 'p'));
  const body = change(delivery.body);
  expect(body).not.toBe(delivery.body);
  return { ...delivery, body };
}

function flipToken(body: string): string {
  return body.replace(/"token":"(.)/, (_, digit) => `"token":"${digit === '0' ? '1' : '0'}`);
}

function deliver(sdk: Sdk, { url, headers, body }: Signed): Promise<Answered> {
  return gateway.deliver(slugOf(sdk), { query: url.slice(PUBLIC_URL.length), headers, body });
}

async function expectMismatch(answer: Answered): Promise<void> {
  expect(answer.status).toBe(401);
  expect(JSON.parse(answer.text)).toMatchObject({ reason: 'signature_mismatch' });
}

describe('what the publisher’s own code signs', () => {
  it.each(SDKS.filter(({ canSign }) => canSign))(
    'is accepted and refused after a flipped byte: $scheme ($sdk)',
    async (sdk) => {
      const signed = await sign(sdk);
      await expectMismatch(await deliver(sdk, flip(signed, sdk)));
      expect((await deliver(sdk, signed)).status).toBe(200);
    },
  );
});

describe('what is signed by hand, because the publisher’s code only verifies or does not exist,', () => {
  it.each(SDKS.filter(({ canSign }) => !canSign))(
    'is accepted and refused as that code says: $scheme ($sdk)',
    async (sdk) => {
      const signed = await sign(sdk);
      const flipped = flip(signed, sdk);
      expect(await sdk.verify?.(signed, sdk.key)).not.toBe(false);
      expect(await sdk.verify?.(flipped, sdk.key)).not.toBe(true);
      await expectMismatch(await deliver(sdk, flipped));
      expect((await deliver(sdk, signed)).status).toBe(200);
    },
  );
});

describe('what sluice signs', () => {
  it.each(SDKS.filter(({ verify }) => verify !== undefined))(
    'satisfies the publisher’s own code, and not with a flipped byte or another key: $scheme ($sdk)',
    async (sdk) => {
      const spec = BUILT_IN_SCHEMES.find(({ name }) => name === sdk.scheme);
      if (spec === undefined || sdk.verify === undefined) throw new Error(`nobody verifies ${sdk.scheme}`);
      const { contentType, key } = sdk;
      const made = signDelivery({
        spec,
        key: sdk.signingKey ?? key,
        contentType,
        url: PUBLIC_URL,
        deliveryId: 'msg_2',
        body: Buffer.from(sdk.body),
        timestampMs: realTime().getTime(),
      });
      const lower = Object.entries(made.headers).map(([name, value]) => [name.toLowerCase(), value]);
      const headers = { ...sdk.headers, ...Object.fromEntries(lower) };
      const delivery = { url: made.url, headers, body: made.body.toString() };
      expect(await sdk.verify(delivery, key)).toBe(true);
      expect(await sdk.verify(flip(delivery, sdk), key)).toBe(false);
      const otherKey =
        sdk.otherKey ?? (key.startsWith('whsec_') ? `whsec_${Buffer.alloc(32, 8).toString('base64')}` : `${key}x`);
      expect(await sdk.verify(delivery, otherKey)).toBe(false);
    },
  );
});

describe.each([
  {
    scheme: 'Zoom',
    askTheirs: askRivet,
    body: '{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,"event":"endpoint.url_validation"}',
  },
  {
    scheme: 'Slack',
    askTheirs: askBolt,
    body: '{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd","type":"url_verification"}',
  },
])('the handshake of $scheme', ({ scheme, askTheirs, body }) => {
  const question = { url: PUBLIC_URL, headers: { 'content-type': 'application/json' }, body };
  const sdk = SDKS.find((it) => it.scheme === scheme);
  if (sdk === undefined) throw new Error(`${scheme} is not in the table`);

  it('is answered as the publisher’s own receiver answers it', async () => {
    const signed = await sdk.sign(question, sdk.key, realTime());
    const theirs = await askTheirs(signed, sdk.key);
    const ours = await deliver(sdk, signed);
    expect([ours.status, theirs.status]).toEqual([200, 200]);
    expect(JSON.parse(ours.text)).toEqual(JSON.parse(theirs.text));
  });

  it('is refused by both when its signature is wrong', async () => {
    const signed = await sdk.sign(question, `${sdk.key}x`, realTime());
    expect((await askTheirs(signed, sdk.key)).status).not.toBe(200);
    await expectMismatch(await deliver(sdk, signed));
  });
});

it('answers Slack’s ssl_check as Slack’s own receiver does', async () => {
  const slack = SDKS.find(({ scheme }) => scheme === 'Slack');
  if (slack === undefined) throw new Error('Slack is not in the table');
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const check = { url: PUBLIC_URL, headers, body: 'ssl_check=1&token=x' };
  const ours = await deliver(slack, check);
  expect(await askBolt(check, slack.key)).toEqual({ status: 200, text: '' });
  expect([ours.status, ours.text]).toEqual([200, '']);
});

it('has the publisher’s own code or known requests for every scheme that says so', () => {
  const confirmed = PUBLISHED_SCHEMES.filter(({ certainty }) => certainty === 'package' || certainty === 'vector');
  const unasked = confirmed.filter(({ name }) => !SDKS.some(({ scheme }) => scheme === name));
  const without = unasked.filter(({ name }) => !VECTORS.some(({ scheme }) => scheme === name));
  expect(without.map(({ name }) => name)).toEqual([]);
});
