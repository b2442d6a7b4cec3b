import { describe, expect, it } from 'vitest';
import type { LoadedFlow } from '../../src/manifest/load.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { webhookChecks } from '../../src/webhooks/checks.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { createSchemeRegistry, resolveScheme } from '../../src/webhooks/schemes/resolve.ts';
import { sampleSettings, sampleTrigger } from './samples.ts';

const KEY = 'a secret of more than thirty-two bytes';
const URL = 'https://publisher.example/keys';
const ENFORCED: WebhookInputs = { webhookEnforcementMode: 'Enforce', webhookReplayToleranceSeconds: 300 };
const JWT: WebhookInputs = {
  ...ENFORCED,
  webhookSignatureScheme: 'Jwt',
  webhookHmacKey: KEY,
  webhookRequireTimestamp: true,
};
const BOUND: WebhookInputs = { ...JWT, webhookJwtBodyHashClaim: 'hash' };
const { webhookHmacKey: _, ...KEYLESS } = BOUND;
const SET: WebhookInputs = { ...KEYLESS, webhookJwksUrl: URL };
const SIGNED: WebhookInputs = { ...JWT, webhookSignatureScheme: 'HttpMessageSignatures' };
const TOKEN: WebhookInputs = {
  webhookEnforcementMode: 'Enforce',
  webhookSignatureScheme: 'Token',
  webhookHmacKey: KEY,
};

const preparer = gatePreparer(gateChain(), sampleSettings({ publicUrl: undefined }));
const check = webhookChecks(preparer);

/** Fields with a message; `!` if it weakens a gate. */
function said(inputs: WebhookInputs): string[] {
  const flow = { webhooks: [sampleTrigger(inputs)] } as unknown as LoadedFlow;
  return check(flow).map(({ path, severity, ...rest }) => {
    const field = path.replace('triggers.webhook.inputs.', '');
    return severity === 'error'
      ? `error ${field}`
      : `${'weakensGate' in rest && rest.weakensGate === true ? '!' : ''}${field}`;
  });
}

describe('a trigger with a scheme of a standard', () => {
  it.each<[string, WebhookInputs, string[]]>([
    ['has nothing to be told of', BOUND, []],
    ['has nothing to be told of with a key set and a body', SET, []],
    ['has nothing to be told of with messages', SIGNED, []],
    ['is told of a body that is not signed', JWT, ['webhookJwtBodyHashClaim']],
    [
      'is told of a key set that may sign for others',
      { ...SET, webhookJwtBodyHashClaim: undefined },
      ['webhookJwtBodyHashClaim', '!webhookJwtAudience'],
    ],
    ['is told of a missing key', KEYLESS, ['webhookHmacKey']],
    ['is told of a short secret', { ...BOUND, webhookHmacKey: 'short' }, ['!webhookHmacKey']],
    ['is told of a placeholder', { ...BOUND, webhookHmacKey: 'changeme' }, ['!webhookHmacKey']],
    [
      'is told of a time that may be missing',
      { ...BOUND, webhookRequireTimestamp: undefined },
      ['webhookRequireTimestamp', 'webhookNonceHeader'],
    ],
    ['is told of an id that is not signed', { ...BOUND, webhookNonceHeader: 'X-Id' }, ['!webhookNonceHeader']],
    [
      'is told of a body that no signature need cover',
      { ...SIGNED, webhookRequiredComponents: ['@path'] },
      ['!webhookRequiredComponents'],
    ],
    [
      'is told of a URL that the sender names',
      { ...SIGNED, webhookRequiredComponents: ['@target-uri', 'content-digest'] },
      ['!webhookPublicUrl'],
    ],
    [
      'is told nothing of an id that is signed',
      { ...SIGNED, webhookRequiredComponents: ['content-digest', 'x-id'], webhookNonceHeader: 'X-Id' },
      [],
    ],
    ['may not say how keys of a set are written', { ...SET, webhookKeyEncoding: 'hex' }, ['error webhookKeyEncoding']],
    [
      'is told of a secret whose bytes are few',
      { ...BOUND, webhookHmacKey: 'c2hvcnQ=', webhookKeyEncoding: 'base64' },
      ['!webhookHmacKey'],
    ],
    ['may not have two kinds of keys', { ...SET, webhookHmacKey: KEY }, ['error webhookJwksUrl']],
    [
      'may not have a public key that is cut',
      { ...BOUND, webhookHmacKey: '-----BEGIN PUBLIC KEY-----' },
      ['error webhookHmacKey'],
    ],
  ])('%s', (_rule, inputs, expected) => {
    expect(said(inputs).sort()).toEqual([...expected].sort());
  });

  it.each<[string, WebhookInputs, string]>([
    ['F for a token of its own', TOKEN, 'F'],
    ['F for a token that says nothing of the body', JWT, 'F'],
    ['B with the body and a time', BOUND, 'B'],
    ['D with the body alone', { ...BOUND, webhookRequireTimestamp: false }, 'D'],
    ['B for a message with its time', SIGNED, 'B'],
    ['D for a message without', { ...SIGNED, webhookRequireTimestamp: false }, 'D'],
    [
      'A for a message with time and id',
      { ...SIGNED, webhookRequiredComponents: ['content-digest', 'x-id'], webhookNonceHeader: 'X-Id' },
      'A',
    ],
    ['E for a message without its body', { ...SIGNED, webhookRequiredComponents: ['@path'] }, 'E'],
  ])('has grade %s', (_rule, inputs, grade) => {
    const scheme = resolveScheme(createSchemeRegistry(), inputs);
    if (scheme?.kind === 'standard') expect(scheme.standard.grade).toBe(grade);
    else expect([scheme?.kind, grade]).toEqual(['spec', 'F']);
  });
});
