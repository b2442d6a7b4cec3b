import { jsonSample, type PublisherSpec, part } from '../spec.ts';

const ITEM = ['notificationItems', '0', 'NotificationRequestItem'] as const;

/** A member of the one notification; a second one would be signed by nothing. */
const member = (path: string, options?: Parameters<typeof part.field>[1]) =>
  part.field([...ITEM, ...path.split('.')], options);

/** Webhooks of the newer products: banking, management, disputes. */
const ofWholeBody: PublisherSpec = {
  name: 'Adyen',
  headers: [{ signature: 'HmacSignature' }],
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [{ ...part.body, isJsonObject: true }],
  keyEncoding: 'hex',
  eventType: { path: ['type'] },
  eventId: { none: 'only what the event is about has one, in data.id' },
  source: '@adyen/api-library 32.1.0, read 2026-11',
};

/**
 * Standard webhooks of payments carry the signature in the body and sign some of its members: nothing of the date, the reason or
 * whether it is a test.
 */
export const adyen: PublisherSpec = {
  name: 'Adyen',
  headers: [],
  signatureFields: [{ path: [...ITEM, 'additionalData', 'hmacSignature'] }],
  requestForm: ofWholeBody,
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [
    // The other form signs bytes that begin with a brace.
    member('pspReference', { form: /^[A-Za-z0-9]/ }),
    ':',
    member('originalReference', { isOptional: true }),
    ':',
    member('merchantAccountCode'),
    ':',
    member('merchantReference', { isOptional: true, isFree: true }),
    ':',
    member('amount.value'),
    ':',
    member('amount.currency'),
    ':',
    member('eventCode'),
    ':',
    member('success'),
  ],
  keyEncoding: 'hex',
  eventType: { path: [...ITEM, 'eventCode'] },
  // With the type it tells a notification from others.
  eventId: { path: [...ITEM, 'pspReference'] },
  // Anything else makes Adyen repeat the notification.
  acceptedResponse: { contentType: 'text/plain', body: '[accepted]' },
  sample: jsonSample({
    live: 'false',
    notificationItems: [
      {
        NotificationRequestItem: {
          pspReference: '7914073381342284',
          merchantAccountCode: 'TestMerchant',
          merchantReference: 'TestPayment-1407325143704',
          amount: { value: 1130, currency: 'EUR' },
          eventCode: 'AUTHORISATION',
          success: 'true',
        },
      },
    ],
  }),
  source: '@adyen/api-library 32.1.0, read 2026-11',
};
