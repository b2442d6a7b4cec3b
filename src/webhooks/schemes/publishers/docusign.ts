import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** Connect has a header for each key of the account, up to a hundred; so many are read as a rotation may need. */
const FURTHER = Array.from({ length: 9 }, (_, at) => `X-DocuSign-Signature-${at + 2}`);

/** Connect, with HMAC switched on. The keys of an account all sign, and any of them may match. */
export const docuSign: PublisherSpec = {
  name: 'DocuSign',
  headers: [{ signature: 'X-DocuSign-Signature-1', furtherSignatures: FURTHER }],
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [part.body],
  eventType: { path: ['event'] },
  eventId: { none: 'only the envelope has one, in data.envelopeId' },
  sample: jsonSample({
    event: 'envelope-completed',
    retryCount: 0,
    generatedDateTime: '2026-11-20T12:00:00.0000000Z',
    data: { accountId: '4b8f', envelopeId: 'a6b1e4f4-9c0c-4b2f-8c7f-1b1d5f3a2e10' },
  }),
  source: 'https://developers.docusign.com/platform/webhooks/connect/validate, read 2026-11',
};
