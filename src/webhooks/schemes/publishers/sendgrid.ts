import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The event webhook. The key is the verification key that SendGrid shows, a public key in base64; the body ends with CR LF. */
export const sendGrid: PublisherSpec = {
  name: 'SendGrid',
  headers: [
    {
      signature: 'X-Twilio-Email-Event-Webhook-Signature',
      timestamp: 'X-Twilio-Email-Event-Webhook-Timestamp',
    },
  ],
  algorithm: 'ecdsaP256',
  encoding: 'base64',
  signs: [part.timestamp, part.body],
  // Ten digits: with any other number of them a digit could be the timestamp's or the body's.
  timestamp: { in: 'header', unit: 'seconds', length: 10 },
  eventType: { none: 'a delivery is a list of events, each with its own' },
  eventId: { none: 'a delivery is a list of events, each with its own' },
  sample: jsonSample([
    { email: 'hello@example.com', event: 'delivered', sg_event_id: 'ZGVsaXZlcmVk', timestamp: 1700000000 },
  ]),
  source: '@sendgrid/eventwebhook 8.0.0, read 2026-11',
};
