import { type PublisherSpec, part } from '../spec.ts';

/** Outgoing webhooks. The key is the base64 of what signs. */
export const microsoftTeams: PublisherSpec = {
  name: 'MicrosoftTeams',
  headers: [{ signature: 'Authorization' }],
  algorithm: 'sha256',
  encoding: 'base64',
  headerValuePrefix: 'HMAC ',
  signs: [part.body],
  keyEncoding: 'base64',
  eventType: { path: ['type'] },
  eventId: { path: ['id'] },
  // Shown in the channel; anything but a message is shown as an error.
  acceptedResponse: { contentType: 'application/json', body: JSON.stringify({ type: 'message', text: 'Received.' }) },
  source:
    'https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-outgoing-webhook, read 2026-11',
};
