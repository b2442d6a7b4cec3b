import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** Webhooks v3. Several `v1` are sent while a secret is rotated. */
export const pagerDuty: PublisherSpec = {
  name: 'PagerDuty',
  headers: [{ signature: 'X-PagerDuty-Signature' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  multiValue: { delimiter: ',', keyValueSeparator: '=', valueKeys: ['v1'], acceptsMultiple: true },
  signs: [part.body],
  eventType: { path: ['event', 'event_type'] },
  eventId: { path: ['event', 'id'] },
  sample: jsonSample({
    event: {
      id: '5ac64822-4adc-4fda-ade0-410becf0de4f',
      event_type: 'incident.triggered',
      resource_type: 'incident',
      data: { id: 'PGR0VU2', type: 'incident', title: 'A little bump in the road' },
    },
  }),
  source: 'https://developer.pagerduty.com/docs/verifying-webhook-signatures, read 2026-11',
};
