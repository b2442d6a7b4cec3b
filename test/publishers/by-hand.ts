import { createHmac, generateKeyPairSync, sign as signAsymmetric } from 'node:crypto';
import { discord, paddleWebhooks, sendGrid, verifyLine } from '../oracles/publishers.ts';
import type { Sdk, Signed } from './sdks.ts';

const BODY = '{"text":"hello Zoë 🎉","type":2,"amount":4200}';

const discordKeys = generateKeyPairSync('ed25519');
const hexOfJwk = (part: string | undefined) => Buffer.from(part ?? '', 'base64url').toString('hex');
const discordJwk = discordKeys.privateKey.export({ format: 'jwk' });

const sendGridKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });

/** SendGrid's code throws for an invalid key. */
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
): Omit<Sdk, 'sdk'> {
  return {
    scheme,
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

/** Publishers whose code only verifies: signed with node:crypto, as their documents say. */
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
];
