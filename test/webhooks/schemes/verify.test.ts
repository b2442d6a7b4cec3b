import { describe, expect, it } from 'vitest';
import type { SignatureVerifier, VerificationResult } from '../../../src/webhooks/schemes/spec.ts';
import { deliveryOf, judge, NOW, settingsOf } from './fixtures.ts';

describe('an operator’s verifier', () => {
  const inputs = { webhookSignatureScheme: 'mine' };
  function judgeWith(verify: SignatureVerifier['verify'], keys: { key?: string } = {}) {
    const settings = settingsOf({ verifiers: [{ name: 'Mine', verify }] });
    return judge({ inputs, settings, ...keys }, deliveryOf({ path: '/in?q=1', body: 'x' }));
  }

  it('is asked with the delivery, the keys and the public URL, and needs no key', async () => {
    const verdict = await judgeWith(({ delivery, keys, publicUrl }) => {
      const isRight = delivery.body.toString() === 'x' && keys.current === undefined && publicUrl.endsWith('/in?q=1');
      return isRight ? { outcome: 'verified' } : { outcome: 'refused', reason: 'not what was sent' };
    });
    expect(verdict).toEqual({ passed: true, evidence: { scheme: 'Mine', isVerified: true, usedPreviousKey: false } });
  });

  it('may be asynchronous, tell of the previous key and of the timestamp', async () => {
    const verdict = await judgeWith(async () => ({ outcome: 'verifiedWithPreviousKey', signedTimestampMs: NOW }));
    expect(verdict).toMatchObject({
      passed: true,
      evidence: { usedPreviousKey: true, signedTimestamp: { text: String(NOW), ms: NOW } },
    });
  });

  it('is not believed if its timestamp is not a number', async () => {
    const verdict = await judgeWith(() => ({ outcome: 'verified', signedTimestampMs: Number.NaN }));
    expect(verdict).toMatchObject({ passed: false, reason: 'timestamp_malformed', evidence: { isVerified: false } });
  });

  it('refuses as a mismatch with its own reason in the detail', async () => {
    const verdict = await judgeWith(() => ({ outcome: 'refused', reason: `revoked ${'x'.repeat(1000)}` }));
    expect(verdict).toMatchObject({ passed: false, reason: 'signature_mismatch', evidence: { isVerified: false } });
    expect(verdict.passed || verdict.detail).toMatch(/^revoked x{192}$/);
  });

  it.each<[string, SignatureVerifier['verify'], string]>([
    [
      'throws',
      () => {
        throw new TypeError('expected signature 0123 with key hidden');
      },
      'verifier "Mine" failed: TypeError',
    ],
    [
      'rejects',
      async () => {
        throw Object.assign(new Error('connect hidden'), { code: 'ECONNREFUSED' });
      },
      'verifier "Mine" failed: Error ECONNREFUSED',
    ],
    [
      'throws no error at all',
      () => {
        throw 'hidden';
      },
      'verifier "Mine" failed',
    ],
    [
      'throws an error with a name of its own making',
      () => {
        throw Object.assign(new Error('hidden'), { name: 'hidden=hidden', code: 'hidden code' });
      },
      'verifier "Mine" failed: Error',
    ],
    ['returns true', () => true as unknown as VerificationResult, 'verifier "Mine" returned no known outcome'],
    ['returns nothing', () => undefined as unknown as VerificationResult, 'verifier "Mine" failed: TypeError'],
    [
      'returns another outcome',
      () => ({ outcome: 'ok' }) as unknown as VerificationResult,
      'verifier "Mine" returned no known outcome',
    ],
  ])('that %s lets nothing pass and leaks nothing', async (_, verify, detail) => {
    const verdict = await judgeWith(verify, { key: 'hidden' });
    expect(verdict).toMatchObject({ passed: false, reason: 'verifier_error', detail, evidence: { isVerified: false } });
    expect(JSON.stringify(verdict)).not.toContain('hidden');
  });

  it('that repeats a key in its reason has it masked', async () => {
    const verdict = await judgeWith(({ keys }) => ({ outcome: 'refused', reason: `not ${keys.current}!` }), {
      key: 'hidden',
    });
    expect(verdict).toMatchObject({ passed: false, detail: 'not ***!' });
  });

  it('gets the same treatment for a payload builder that fails or builds no bytes', async () => {
    for (const build of [
      () => {
        throw new Error('hidden');
      },
      () => 'text' as unknown as Uint8Array,
    ]) {
      const settings = settingsOf({ payloadBuilders: { build } });
      const customInputs = {
        webhookSignatureScheme: 'Custom',
        webhookSignatureHeader: 'X-Signature',
        webhookSignedPayloadStrategy: 'Custom',
        webhookCustomStrategyName: 'build',
      } as const;
      const delivery = deliveryOf({ headers: { 'x-signature': '0'.repeat(64) } });
      const verdict = await judge({ inputs: customInputs, key: 'key', settings }, delivery);
      expect(verdict).toMatchObject({ passed: false, reason: 'verifier_error' });
      expect(JSON.stringify(verdict)).not.toContain('hidden');
    }
  });
});
