import { describe, expect, it } from 'vitest';
import { accessOf, entranceOf } from '../../../src/features/deploy-rules/entrance.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import type { SignatureSettings } from '../../../src/webhooks/gates/signature.ts';
import { sampleSettings, sampleTrigger } from '../../webhooks/samples.ts';

const OFFICE = { name: 'office', prepare: () => ({ name: 'office', check: () => ({ passed: true }) as const }) };
const KEY = 'a secret of more than thirty-two bytes';
const signed = (webhookSignatureScheme: string, inputs: WebhookInputs = {}): WebhookInputs => ({
  ...{ webhookEnforcementMode: 'Enforce', webhookHmacKey: KEY, webhookSignatureScheme },
  ...inputs,
});

describe.each<[string, Partial<SignatureSettings>]>([
  ['other proxies are trusted', { trustedProxies: ['10.0.0.0/8'] }],
  ['there are more proxies', { forwardedHeaderDepth: 1 }],
])('where %s, access', (_what, proxies) => {
  const behind = (inputs: WebhookInputs, gates: Parameters<typeof gateChain>[0] = []) => {
    const entrance = (settings: Partial<SignatureSettings>) =>
      entranceOf(sampleTrigger(inputs), {
        preparer: gatePreparer(gateChain(gates), sampleSettings(settings)),
        defaultMode: 'Enforce',
      });
    expect(accessOf(entrance(proxies), entrance(proxies)).access).toBe('same');
    return accessOf(entrance({}), entrance(proxies)).access;
  };

  it('is wider if a signature covers the URL, which they forward', () => {
    expect(behind(signed('Square'))).toBe('wider');
    expect(behind(signed('HttpMessageSignatures'))).toBe('wider');
  });

  it('is the same if the URL is configured, or not signed', () => {
    expect(behind(signed('Square', { webhookPublicUrl: 'https://hooks.example.com/in' }))).toBe('same');
    expect(behind(signed('GitHub'))).toBe('same');
  });

  it('is wider if a gate of the operator may ask for the address', () => {
    expect(behind(signed('GitHub'), [OFFICE])).toBe('wider');
  });
});
