import { URL_ENCODED_FORM } from '../../../model/form.ts';
import { type PublisherSpec, part } from '../spec.ts';

/** SHA-1 is the only algorithm that Twilio has. */
export const twilio: PublisherSpec = {
  name: 'Twilio',
  headers: [{ signature: 'X-Twilio-Signature', deliveryId: 'I-Twilio-Idempotency-Token' }],
  algorithm: 'sha1',
  encoding: 'base64',
  signs: [{ ...part.url, hasPortVariants: true }, part.sortedForm],
  eventType: { none: 'each product tells it in fields of its own' },
  eventId: { headers: ['I-Twilio-Idempotency-Token'] },
  // Any other document makes the console report error 12300.
  acceptedResponse: { contentType: 'text/xml', body: '<Response/>' },
  sample: {
    contentType: URL_ENCODED_FORM,
    body: 'AccountSid=AC123&Body=Hello+there&From=%2B14155550100&MessageSid=SM123&To=%2B14155550199',
  },
  source: 'https://www.twilio.com/docs/usage/webhooks/webhooks-security and twilio 6.2.0, read 2026-11',
};
