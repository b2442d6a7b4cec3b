import { createHmac, generateKeyPairSync, sign as signAsymmetric } from 'node:crypto';
import { discord, paddleWebhooks, sendGrid, verifyLine } from '../oracles/publishers.ts';
import type { Sdk, Signed } from './sdks.ts';

const BODY = '{"text":"hello Zoë 🎉","type":2,"amount":4200}';
const MESSAGE_ID = 'befa7b53-d79d-478f-86b9-120f112b044e';

const discordKeys = generateKeyPairSync('ed25519');
const hexOfJwk = (part: string | undefined) => Buffer.from(part ?? '', 'base64url').toString('hex');
const discordJwk = discordKeys.privateKey.export({ format: 'jwk' });

const sendGridKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });

/** Its own code throws for a key that is none. */
function sendGridAccepts({ headers, body }: Signed, key: string): boolean {
  const signature = headers['x-twilio-email-event-webhook-signature'] ?? '';
  const timestamp = headers['x-twilio-email-event-webhook-timestamp'] ?? '';
  try {
    return sendGrid.verifySignature(sendGrid.convertPublicKeyToECDSA(key), body, signature, timestamp);
  } catch {
    return false;
  }
}

function byHand(
  scheme: string,
  key: string,
  headersOf: (delivery: Signed, signing: { key: string; at: Date }) => Record<string, string>,
): Sdk {
  return {
    scheme,
    sdk: 'no package: as documented',
    key,
    contentType: 'application/json',
    body: BODY,
    canSign: false,
    sign: (delivery, signingKey, at) => ({
      ...delivery,
      headers: { ...delivery.headers, ...headersOf(delivery, { key: signingKey, at }) },
    }),
  };
}

/** Publishers that have no code to sign with: done with node:crypto, as their documents say. */
export const BY_HAND: readonly Sdk[] = [
  {
    ...byHand('Discord', hexOfJwk(discordJwk.x), ({ body }, { at }) => {
      const timestamp = String(Math.floor(at.getTime() / 1000));
      const signature = signAsymmetric(null, Buffer.from(timestamp + body), discordKeys.privateKey);
      return { 'x-signature-timestamp': timestamp, 'x-signature-ed25519': signature.toString('hex') };
    }),
    sdk: 'discord-interactions',
    signingKey: hexOfJwk(discordJwk.d),
    verify: ({ headers, body }, publicKey) =>
      discord.verifyKey(body, headers['x-signature-ed25519'] ?? '', headers['x-signature-timestamp'] ?? '', publicKey),
  },
  byHand('Twitch', 'twitch secret', ({ body }, { key, at }) => {
    const timestamp = at.toISOString().replace('Z', '123456Z');
    const digest = createHmac('sha256', key).update(`${MESSAGE_ID}${timestamp}${body}`).digest('hex');
    return {
      'twitch-eventsub-message-id': MESSAGE_ID,
      'twitch-eventsub-message-timestamp': timestamp,
      'twitch-eventsub-message-type': 'notification',
      'twitch-eventsub-message-signature': `sha256=${digest}`,
    };
  }),
  byHand('Asana', 'asana hook secret', ({ body }, { key }) => ({
    'x-hook-signature': createHmac('sha256', key).update(body).digest('hex'),
  })),
  ...(
    [
      ['Sentry', 'sentry-hook-signature', 'sha256', 'hex', ''],
      ['CoinbaseCommerce', 'x-cc-webhook-signature', 'sha256', 'hex', ''],
      ['Typeform', 'typeform-signature', 'sha256', 'base64', 'sha256='],
      ['Vercel', 'x-vercel-signature', 'sha1', 'hex', ''],
      ['Intercom', 'x-hub-signature', 'sha1', 'hex', 'sha1='],
      ['PagerDuty', 'x-pagerduty-signature', 'sha256', 'hex', 'v1='],
      ['DocuSign', 'x-docusign-signature-1', 'sha256', 'base64', ''],
    ] as const
  ).map(([scheme, header, algorithm, encoding, prefix]) =>
    byHand(scheme, `${scheme} secret`, ({ body }, { key }) => ({
      [header]: `${prefix}${createHmac(algorithm, key).update(body).digest(encoding)}`,
    })),
  ),
  {
    ...byHand(
      'SendGrid',
      sendGridKeys.publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
      ({ body }, { at }) => {
        const timestamp = String(Math.floor(at.getTime() / 1000));
        const signature = signAsymmetric('sha256', Buffer.from(timestamp + body), sendGridKeys.privateKey);
        return {
          'x-twilio-email-event-webhook-signature': signature.toString('base64'),
          'x-twilio-email-event-webhook-timestamp': timestamp,
        };
      },
    ),
    sdk: '@sendgrid/eventwebhook',
    signingKey: sendGridKeys.privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64'),
    otherKey: generateKeyPairSync('ec', { namedCurve: 'P-256' })
      .publicKey.export({ type: 'spki', format: 'der' })
      .toString('base64'),
    verify: sendGridAccepts,
  },
  byHand('Zendesk', 'zendesk secret', ({ body }, { key, at }) => {
    const timestamp = at.toISOString().replace(/\.\d+Z$/, 'Z');
    return {
      'x-zendesk-webhook-signature': createHmac('sha256', key).update(`${timestamp}${body}`).digest('base64'),
      'x-zendesk-webhook-signature-timestamp': timestamp,
    };
  }),
  {
    ...byHand('Paddle', 'pdl_ntfset_secret', ({ body }, { key, at }) => {
      const seconds = Math.floor(at.getTime() / 1000);
      const digest = createHmac('sha256', key).update(`${seconds}:${body}`).digest('hex');
      return { 'paddle-signature': `ts=${seconds};h1=${digest}` };
    }),
    sdk: '@paddle/paddle-node-sdk',
    verify: ({ headers, body }, key) => paddleWebhooks.isSignatureValid(body, key, headers['paddle-signature'] ?? ''),
  },
  {
    ...byHand('Line', 'channel secret', ({ body }, { key }) => ({
      'x-line-signature': createHmac('sha256', key).update(body).digest('base64'),
    })),
    sdk: '@line/bot-sdk',
    verify: ({ headers, body }, key) => verifyLine(body, key, headers['x-line-signature'] ?? ''),
  },
  byHand('Trello', 'trello secret', ({ body, url }, { key }) => ({
    'x-trello-webhook': createHmac('sha1', key).update(`${body}${url}`).digest('base64'),
  })),
];
