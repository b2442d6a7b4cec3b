import type { SignatureSpec } from '../spec.ts';

export const calendly: SignatureSpec = {
  name: 'Calendly',
  headers: [{ signature: 'Calendly-Webhook-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  multiValue: { delimiter: ',', keyValueSeparator: '=', valueKeys: ['v1'], acceptsMultiple: true },
  payload: { strategy: 'TimestampDotBody' },
  timestamp: { in: 'signature', valueKey: 't', unit: 'seconds' },
  eventType: { path: ['event'] },
  source: 'https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures, read 2026-11',
};
