import type { SignatureSpec } from '../spec.ts';

/** Outgoing webhooks. The key is the base64 of what signs. */
export const microsoftTeams: SignatureSpec = {
  name: 'MicrosoftTeams',
  headers: [{ signature: 'Authorization' }],
  algorithm: 'sha256',
  encoding: 'base64',
  headerValuePrefix: 'HMAC ',
  payload: { strategy: 'RawBody' },
  keyEncoding: 'base64',
  // Shown in the channel; anything but a message is shown as an error.
  eventId: { path: ['id'] },
  acceptedResponse: { contentType: 'application/json', body: JSON.stringify({ type: 'message', text: 'Received.' }) },
  source:
    'https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/add-outgoing-webhook, read 2026-11',
};
