import { createHmac, generateKeyPairSync, sign as signAsymmetric } from 'node:crypto';
import { discord } from './packages.ts';
import type { Sdk, Signed } from './sdks.ts';

const BODY = '{"text":"hello Zoë 🎉","type":2,"amount":4200}';
const MESSAGE_ID = 'befa7b53-d79d-478f-86b9-120f112b044e';

const discordKeys = generateKeyPairSync('ed25519');
const hexOfJwk = (part: string | undefined) => Buffer.from(part ?? '', 'base64url').toString('hex');
const discordJwk = discordKeys.privateKey.export({ format: 'jwk' });

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
  byHand('Trello', 'trello secret', ({ body, url }, { key }) => ({
    'x-trello-webhook': createHmac('sha1', key).update(`${body}${url}`).digest('base64'),
  })),
];
