import { jsonSample, type PublisherSpec, part } from '../spec.ts';

/**
 * Version 3 of the signature; the two before it have no time. Nothing separates the parts, but the method is known, and the
 * thirteen digits of the time are the last. The URL is signed with some characters decoded.
 */
export const hubSpot: PublisherSpec = {
  name: 'HubSpot',
  headers: [{ signature: 'X-HubSpot-Signature-v3', timestamp: 'X-HubSpot-Request-Timestamp' }],
  algorithm: 'sha256',
  encoding: 'base64',
  signs: [part.method, { ...part.url, decoded: ":/?@!$'()*,;" }, part.body, part.timestamp],
  timestamp: { in: 'header', unit: 'milliseconds', length: 13 },
  eventType: { none: 'a delivery is a list of events, each with its own' },
  eventId: { none: 'a delivery is a list of events, each with its own' },
  sample: jsonSample([
    {
      eventId: 1,
      subscriptionId: 12345,
      portalId: 62515,
      occurredAt: 1700000000000,
      subscriptionType: 'contact.creation',
      attemptNumber: 0,
      objectId: 123,
    },
  ]),
  source:
    'https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation and @hubspot/api-client 13.5.0, read 2026-11',
};
