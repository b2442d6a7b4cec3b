import { createHmac, generateKeyPairSync, sign as signAsymmetric } from 'node:crypto';
import type { Sdk, Signed } from './sdks.ts';

const BODY = '{"text":"hello Zoë 🎉","type":2,"amount":4200}';
const MESSAGE_ID = 'befa7b53-d79d-478f-86b9-120f112b044e';

const discordKeys = generateKeyPairSync('ed25519');
const discordPublicKey = Buffer.from(discordKeys.publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');

function byHand(
  scheme: string,
  key: string,
  headersOf: (delivery: Signed, signing: { key: string; at: Date }) => Record<string, string>,
): Sdk {
  return {
    ...{ scheme, sdk: 'no package: as documented', key, contentType: 'application/json', body: BODY, canSign: false },
    sign: (delivery, signingKey, at) => ({
      ...delivery,
      headers: { ...delivery.headers, ...headersOf(delivery, { key: signingKey, at }) },
    }),
  };
}

/** Publishers whose code is not installed here: signed with node:crypto, as their documents say. */
export const BY_HAND: readonly Sdk[] = [
  byHand('Discord', discordPublicKey.toString('hex'), ({ body }, { at }) => {
    const timestamp = String(Math.floor(at.getTime() / 1000));
    const signature = signAsymmetric(null, Buffer.from(timestamp + body), discordKeys.privateKey);
    return { 'x-signature-timestamp': timestamp, 'x-signature-ed25519': signature.toString('hex') };
  }),
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
  byHand('Trello', 'trello secret', ({ body, url }, { key }) => ({
    'x-trello-webhook': createHmac('sha1', key).update(`${body}${url}`).digest('base64'),
  })),
];
