import type { HandshakeForm } from './handshake-form.ts';

/**
 * Endpoint tests of publishers without their own signature scheme. Answered for triggers without a scheme, or with a
 * scheme that any sender can use. They need no signature, repeat one word, and start no run.
 */
export const ANY_SENDER_FORMS: readonly HandshakeForm[] = [
  // Azure Event Grid in its own schema; in the CloudEvents schema it asks by OPTIONS:
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
 * The request by which a CloudEvents publisher, such as Azure, asks whether it may deliver. The answer reveals that
 * there is a webhook, as the refusal of any delivery does; gates judge the deliveries that follow.
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
