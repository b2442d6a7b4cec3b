import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The prefix of hex digests elsewhere, in front of base64. */
export const typeform: PublisherSpec = {
  name: 'Typeform',
  keyIsChosen: true,
  headers: [{ signature: 'Typeform-Signature' }],
  algorithm: 'sha256',
  encoding: 'base64',
  prefix: 'sha256=',
  signs: [part.body],
  eventType: { path: ['event_type'] },
  eventId: { path: ['event_id'] },
  sample: jsonSample({
    event_id: '01H3Q2W5ZK8M',
    event_type: 'form_response',
    form_response: { form_id: 'lT4Z3j', token: 'a3a12ec67a1365927098a606107fac15', answers: [] },
  }),
  unconfirmed: 'all of it: the signature is as published verifiers of third parties have it',
  source: 'https://trigger.dev/docs/webhooks/providers/typeform and published verifiers, read 2026-11',
};
