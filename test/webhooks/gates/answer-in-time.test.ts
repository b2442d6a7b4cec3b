import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Verdict } from '../../../src/webhooks/gate.ts';
import type { SignatureVerifier } from '../../../src/webhooks/schemes/spec.ts';
import { deliveryOf, judge, settingsOf } from '../schemes/fixtures.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function judgeWith(verify: SignatureVerifier['verify'], verifierTimeLimitMs?: number): Promise<Verdict> {
  const settings = settingsOf({ verifiers: [{ name: 'Remote', verify }] }, { verifierTimeLimitMs });
  return judge({ inputs: { webhookSignatureScheme: 'Remote' }, settings }, deliveryOf());
}

it('refuses what a verifier does not answer within five seconds, and tells it to stop', async () => {
  let signal: AbortSignal | undefined;
  const verdicts: Verdict[] = [];
  const judging = judgeWith((request) => {
    signal = request.signal;
    return new Promise(() => {});
  }).then((verdict) => verdicts.push(verdict));
  await vi.advanceTimersByTimeAsync(4999);
  expect(verdicts).toEqual([]);
  expect(signal?.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await judging;
  expect(signal?.aborted).toBe(true);
  expect(verdicts).toMatchObject([
    {
      passed: false,
      reason: 'verifier_error',
      detail: 'verifier "Remote" gave no answer within 5 s',
      evidence: { isVerified: false },
    },
  ]);
});

it('hears nothing of what a verifier says too late, whether it passes or throws', async () => {
  const late = (request: { signal: AbortSignal }, answer: () => { outcome: 'verified' }) =>
    new Promise<{ outcome: 'verified' }>((resolve, reject) => {
      request.signal.addEventListener('abort', () => {
        try {
          resolve(answer());
        } catch (error) {
          reject(error);
        }
      });
    });
  const fails = () => {
    throw new Error('the connection was closed');
  };
  const judging = [
    judgeWith((request) => late(request, () => ({ outcome: 'verified' })), 10),
    judgeWith((request) => late(request, fails), 10),
  ];
  await vi.advanceTimersByTimeAsync(10);
  for (const verdict of await Promise.all(judging)) {
    expect(verdict).toMatchObject({ passed: false, detail: 'verifier "Remote" gave no answer within 0.01 s' });
  }
});

it('leaves no timer behind a verifier that answers, or throws', async () => {
  expect(await judgeWith(() => ({ outcome: 'verified' }))).toMatchObject({ passed: true });
  expect(await judgeWith(async () => ({ outcome: 'verified' }))).toMatchObject({ passed: true });
  expect(
    await judgeWith(() => {
      throw new Error('no');
    }),
  ).toMatchObject({ passed: false, reason: 'verifier_error' });
  expect(vi.getTimerCount()).toBe(0);
});
