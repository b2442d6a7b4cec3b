import type { SignatureSpec } from '../spec.ts';

/** SHA-1 is the only algorithm that Twilio has. */
export const twilio: SignatureSpec = {
  name: 'Twilio',
  headers: [{ signature: 'X-Twilio-Signature', deliveryId: 'I-Twilio-Idempotency-Token' }],
  algorithm: 'sha1',
  encoding: 'base64',
  payload: { strategy: 'UrlPlusSortedForm', hasPortVariants: true },
  // Any other document makes the console report error 12300.
  acceptedResponse: { contentType: 'text/xml', body: '<Response/>' },
  source: 'https://www.twilio.com/docs/usage/webhooks/webhooks-security and twilio 6.2.0, read 2026-11',
};
