import { describe, expect, it } from 'vitest';
import { headersRead, runHeaders, shownHeaders } from '../../src/webhooks/headers.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';

const HIDDEN = { kept: '[redacted]', inRun: '[redacted]' };
const FOR_FLOWS = { kept: '[redacted]', inRun: 'value' };
const SHOWN = { kept: 'value', inRun: 'value' };

const CREDENTIALS = `authorization proxy-authorization cookie set-cookie x-api-key x-apikey apikey x-auth-user x-gitlab-token
  x-telegram-bot-api-secret-token x-hook-secret x-password x-credentials x-webhook-key ocp-apim-subscription-key x-jwt
  x-jwt-assertion x-goog-iap-jwt-assertion x-ms-client-principal-session session x-session-id x-pin pin x-otp
  x-signature-token x-hmac-secret x-amz-security-token x-saml-response x-bearer x-passphrase x-sid x-auth-key`;
const UNKNOWN = 'x-monkey x-acme-code x-tenant referer x-signature-of-approval ce-data x-github-hook';
const HARMLESS = `x-hub-signature-256 x-hub-signature stripe-signature x-auth-signature x-shopify-hmac-sha256
  x-square-hmacsha256-signature x-signature-ed25519 x-signature-timestamp signature signature-input digest content-digest
  i-twilio-idempotency-token idempotency-key x-idempotency-key content-type content-length content-encoding accept
  accept-language user-agent host date via forwarded x-forwarded-for x-forwarded-proto x-real-ip x-request-id x-request-uuid
  x-correlation-id traceparent tracestate x-github-event x-github-delivery x-github-hook-id x-gitlab-event x-event-key
  x-hook-uuid x-shopify-topic x-shopify-shop-domain x-shopify-webhook-id webhook-id webhook-timestamp svix-id svix-timestamp
  linear-event linear-delivery twitch-eventsub-message-type twitch-eventsub-message-id twitch-eventsub-message-retry
  x-slack-retry-num x-slack-retry-reason x-slack-request-timestamp x-zm-request-timestamp x-atlassian-webhook-identifier
  ce-id ce-type ce-source x-acme-nonce x-event x-attempt-number x-trello-webhook`;

const words = (text: string) => text.split(/\s+/);
const cases = [
  ...words(CREDENTIALS).map((name) => [name, HIDDEN] as const),
  ...words(UNKNOWN).map((name) => [name, FOR_FLOWS] as const),
  ...words(HARMLESS).map((name) => [name, SHOWN] as const),
];

describe('of the headers of a delivery', () => {
  it.each(cases)('%s is %o', (name, { kept, inRun }) => {
    const headers = { [name]: 'value' };
    expect(runHeaders(headers)).toEqual({ [name]: inRun });
    expect(shownHeaders(headers)).toEqual({ [name]: kept });
  });

  it('those that a trigger reads are kept, but for what looks like a credential', () => {
    const read = new Set(['x-acme-sum', 'authorization', 'x-acme-token']);
    expect(shownHeaders({ 'x-acme-sum': 'a', authorization: 'b', 'x-acme-token': 'c' }, read)).toEqual({
      'x-acme-sum': 'a',
      authorization: '[redacted]',
      'x-acme-token': '[redacted]',
    });
  });

  it('all that built-in schemes read are kept, whatever the trigger, but for tokens and a digest sent as Authorization', () => {
    const tokens = BUILT_IN_SCHEMES.filter(({ algorithm }) => algorithm === 'token').flatMap(({ headers }) => headers);
    const hidden = ['authorization', ...tokens.map(({ signature }) => signature.toLowerCase())];
    const families = BUILT_IN_SCHEMES.flatMap(({ headers, requestForm }) => [
      ...headers,
      ...(requestForm?.headers ?? []),
    ]);
    const names = families.flatMap((family) => Object.values(family).flat());
    for (const name of names.map((given) => String(given).toLowerCase())) {
      const expected = hidden.includes(name) ? '[redacted]' : 'value';
      expect(shownHeaders({ [name]: 'value' }), name).toEqual({ [name]: expected });
    }
  });

  it('those that steps name or send on count as read, whatever their case', () => {
    const steps = {
      a: {
        type: 'Transform',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the manifest.
        inputs: { value: "${trigger.headers['x-tenant']} ${trigger.headers.region}" },
        runAfter: {},
      },
      b: { type: 'HttpRequest', inputs: { forwardHeaders: ['X-Shop', 'x-plan'] }, runAfter: {} },
      c: { type: 'NoOp', inputs: {}, runAfter: { a: { statuses: [], when: 'has(trigger.headers["x-when"])' } } },
    };
    const { names, isOpen } = headersRead(undefined, {}, steps);
    expect([...names].sort()).toEqual(['region', 'x-plan', 'x-shop', 'x-tenant', 'x-when']);
    expect(isOpen).toBe(false);
  });

  it('long values are cut, and a hundred kept', () => {
    expect(shownHeaders({ date: 'x'.repeat(8192) }).date).toHaveLength(8192);
    expect(shownHeaders({ date: 'x'.repeat(8193) }).date).toBe(`${'x'.repeat(8192)}…`);
    const many = Object.fromEntries(Array.from({ length: 150 }, (_, i) => [`h${i}`, 'v']));
    expect(Object.keys(shownHeaders(many))).toEqual(Object.keys(many).slice(0, 100));
  });

  it('none reaches a prototype', () => {
    const kept = shownHeaders(JSON.parse('{"__proto__":"x"}'));
    expect(Object.getPrototypeOf(kept)).toBe(Object.prototype);
    expect(Object.keys(kept)).toEqual(['__proto__']);
  });
});
