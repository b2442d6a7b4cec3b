import { jsonSample, type PublisherSpec } from '../spec.ts';

/** Bots. Nothing is signed: the key is the secret_token that setWebhook was given, and comes with every update. */
export const telegram: PublisherSpec = {
  name: 'Telegram',
  keyIsChosen: true,
  headers: [{ signature: 'X-Telegram-Bot-Api-Secret-Token' }],
  algorithm: 'token',
  encoding: 'hexLower',
  signs: [],
  eventType: { none: 'the member next to update_id names it' },
  eventId: { path: ['update_id'] },
  sample: jsonSample({
    update_id: 10000,
    message: { message_id: 1365, date: 1700000000, chat: { id: 1111111, type: 'private' }, text: '/start' },
  }),
  source: 'https://core.telegram.org/bots/api#setwebhook, as quoted by its clients, read 2026-11',
};
