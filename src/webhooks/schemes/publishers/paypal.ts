import { type PublisherSpec, part } from '../spec.ts';

/**
 * Signs id, time, the id of the webhook and a checksum of the body. The checksum is a CRC-32, for which anyone can make another
 * body, so the body does not count as signed. The key of the trigger is the id of the webhook.
 */
export const payPal: PublisherSpec = {
  name: 'PayPal',
  headers: [
    {
      signature: 'PayPal-Transmission-Sig',
      timestamp: 'PayPal-Transmission-Time',
      deliveryId: 'PayPal-Transmission-Id',
    },
  ],
  algorithm: 'rsaSha256',
  encoding: 'base64',
  signs: [part.deliveryId, '|', part.timestamp, '|', part.keyName, '|', part.checksum],
  timestamp: { in: 'header', unit: 'rfc3339' },
  certificate: {
    url: { header: 'PayPal-Cert-Url' },
    host: /api(?:-m)?\.paypal\.com/,
    path: /\/v1\/notifications\/certs\/CERT-[0-9a-f]+(?:-[0-9a-f]+)*/i,
    commonName: /^(?:(?!sandbox\.)[a-z0-9-]+\.)+paypal\.com$/,
    sandbox: { host: /api(?:-m)?\.sandbox\.paypal\.com/, commonName: /^(?:[a-z0-9-]+\.)+paypal\.com$/ },
    keyIs: 'the id of a webhook, which PayPal shows next to it',
    keyForm: /[A-Z0-9]{8,50}/,
  },
  eventType: { path: ['event_type'] },
  eventId: { path: ['id'] },
  source:
    'https://developer.paypal.com/api/rest/webhooks/rest, and deliveries and a certificate of the sandbox in the tests and samples of paypal/PayPal-Java-SDK, PayPal-node-SDK and PayPal-Python-SDK, read 2026-11',
};
