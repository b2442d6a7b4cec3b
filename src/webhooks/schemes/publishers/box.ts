import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The body comes first, the timestamp behind it. Both keys sign, so that one of them can be replaced at a time. */
export const box: PublisherSpec = {
  name: 'Box',
  headers: [
    {
      signature: 'Box-Signature-Primary',
      furtherSignatures: ['Box-Signature-Secondary'],
      timestamp: 'Box-Delivery-Timestamp',
      deliveryId: 'Box-Delivery-Id',
    },
  ],
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [{ ...part.body, hasEscapedForm: true }, part.timestamp],
  timestamp: { in: 'header', unit: 'rfc3339Offset' },
  eventType: { path: ['trigger'] },
  eventId: { headers: ['Box-Delivery-Id'] },
  sample: jsonSample(
    {
      type: 'webhook_event',
      id: 'eb0c4e06-751f-442c-86f8-fd5bb404dbec',
      trigger: 'FILE.UPLOADED',
      source: { id: '73835521473', type: 'file', name: 'contract.pdf' },
    },
    { 'box-signature-version': '1', 'box-signature-algorithm': 'HmacSHA256' },
  ),
  source: 'https://developer.box.com/guides/webhooks/v2/signatures-v2/ and box-node-sdk 10.12.0, read 2026-11',
};
