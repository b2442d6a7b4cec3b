import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/** The key is the client secret of the integration. Sentry-Hook-Timestamp and Request-ID are not signed. */
export const sentry: PublisherSpec = {
  name: 'Sentry',
  headers: [{ signature: 'Sentry-Hook-Signature', deliveryId: 'Request-ID' }],
  algorithm: 'sha256',
  encoding: 'hexLower',
  signs: [part.body],
  eventType: { headers: ['Sentry-Hook-Resource'] },
  eventId: { headers: ['Request-ID'] },
  sample: jsonSample(
    {
      action: 'created',
      installation: { uuid: 'a8e5d37a-696c-4c54-adb5-b3f28d64c7de' },
      data: { issue: { id: '1170820242', title: 'ReferenceError: heck is not defined', project: { slug: 'shop' } } },
    },
    { 'sentry-hook-resource': 'issue' },
  ),
  source: 'https://docs.sentry.io/organization/integrations/integration-platform/webhooks/, read 2026-11',
};
