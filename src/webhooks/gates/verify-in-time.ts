import type { SignatureVerifier, VerificationRequest, VerificationResult } from '../schemes/spec.ts';

/** Publishers wait three to thirty seconds for an answer, and each delivery that waits holds its body in memory. */
export const VERIFIER_TIME_LIMIT_MS = 5000;

/** An operator's verifier did not answer in time. */
export class VerifierTimeoutError extends Error {
  constructor(limitMs: number) {
    super(`gave no answer within ${limitMs / 1000} s`);
    this.name = 'VerifierTimeoutError';
  }
}

/**
 * Asks the verifier and rejects with `VerifierTimeoutError` when its time is up; the request's signal aborts then. What
 * it says later is heard by nobody. A verifier that never lets go of the thread cannot be interrupted.
 */
export async function verifyInTime(
  verifier: SignatureVerifier,
  request: Omit<VerificationRequest, 'signal'>,
  limitMs: number,
): Promise<VerificationResult> {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const timeIsUp = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = new VerifierTimeoutError(limitMs);
      reject(error);
      controller.abort(error);
    }, limitMs);
  });
  try {
    return await Promise.race([verifier.verify({ ...request, signal: controller.signal }), timeIsUp]);
  } finally {
    clearTimeout(timer);
  }
}
