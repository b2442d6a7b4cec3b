import type { HandshakeForm } from './handshake-form.ts';

/**
 * Tests by publishers that sign by no scheme of their own: answered for triggers that name none, or one that is any sender's. They need no
 * signature, repeat one word, and start no run.
 */
export const ANY_SENDER_FORMS: readonly HandshakeForm[] = [
  // Azure Event Grid, in its own schema; in that of CloudEvents it asks by OPTIONS:
  // https://learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema, read 2026-11.
  {
    name: 'SubscriptionValidationEvent',
    method: 'POST',
    contains: 'Microsoft.EventGrid.SubscriptionValidationEvent',
    when: ['{field:0.eventType} = Microsoft.EventGrid.SubscriptionValidationEvent'],
    answer: { json: { validationResponse: '{field:0.data.validationCode}' } },
  },
];

/**
 * The question of a publisher of CloudEvents whether it may deliver, such as Azure's. Who asks learns that there is a webhook, as
 * everyone does by a delivery that is refused; gates judge what is then sent.
 * https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md, section 4, read 2026-11.
 */
export const PERMISSION_FORMS: readonly HandshakeForm[] = [
  {
    name: 'WebHook-Request-Rate',
    method: 'OPTIONS',
    when: ['{header:webhook-request-origin}', '{header:webhook-request-rate}'],
    answer: { headers: { allow: 'POST', 'webhook-allowed-origin': '*', 'webhook-allowed-rate': '*' } },
  },
  {
    name: 'WebHook-Request-Origin',
    method: 'OPTIONS',
    when: ['{header:webhook-request-origin}'],
    answer: { headers: { allow: 'POST', 'webhook-allowed-origin': '*' } },
  },
];
