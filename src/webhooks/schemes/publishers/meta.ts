import { echo, type Handshake, isSameSecret } from '../handshake.ts';
import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** Sent once, unsigned, when the callback URL is saved, with the token that was typed in next to it. */
const subscription: Handshake = {
  name: 'hub.challenge',
  method: 'GET',
  needsVerification: false,
  needsVerifyToken: true,
  recognises: ({ query }) => query.has('hub.mode') || query.has('hub.challenge'),
  refuse({ query, verifyToken }) {
    if (verifyToken === undefined) {
      return { statusCode: 403, reason: 'key_not_configured', detail: 'the trigger has no webhookVerifyToken' };
    }
    const isSubscription = query.get('hub.mode') === 'subscribe';
    if (isSubscription && isSameSecret(query.get('hub.verify_token') ?? '', verifyToken)) return undefined;
    return { statusCode: 403, reason: 'signature_mismatch', detail: 'hub.verify_token is not webhookVerifyToken' };
  },
  answer: ({ query }) => echo(query.get('hub.challenge')),
};

/** Facebook, Instagram, Messenger, Threads and WhatsApp. The key is the app secret; characters beyond ASCII come escaped. */
export const meta: PublisherSpec = {
  name: 'Meta',
  headers: [{ signature: 'X-Hub-Signature-256' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  prefix: 'sha256=',
  signs: [part.body],
  eventType: { path: ['object'] },
  eventId: { none: 'only the objects that changed have one' },
  handshakes: [subscription],
  sample: jsonSample({
    object: 'whatsapp_business_account',
    entry: [{ id: '102290129340398', changes: [{ field: 'messages', value: { messaging_product: 'whatsapp' } }] }],
  }),
  source: 'https://developers.facebook.com/docs/graph-api/webhooks/getting-started, read 2026-11',
};
