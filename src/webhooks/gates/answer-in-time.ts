/** Publishers wait three to thirty seconds for an answer, and each delivery that waits holds its body in memory. */
export const ANSWER_TIME_LIMIT_MS = 5000;

/** An operator's verifier or gate did not answer in time. */
export class AnswerTimeoutError extends Error {
  constructor(limitMs: number) {
    super(`gave no answer within ${limitMs / 1000} s`);
    this.name = 'AnswerTimeoutError';
  }
}

/**
 * Asks code of the operator's and rejects with `AnswerTimeoutError` when its time is up; the signal aborts then. What it
 * says later is heard by nobody. Code that never lets go of the thread cannot be interrupted.
 */
export async function answerInTime<Answer>(
  ask: (signal: AbortSignal) => Answer | Promise<Answer>,
  limitMs: number,
): Promise<Answer> {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const timeIsUp = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = new AnswerTimeoutError(limitMs);
      reject(error);
      controller.abort(error);
    }, limitMs);
  });
  try {
    return await Promise.race([ask(controller.signal), timeIsUp]);
  } finally {
    clearTimeout(timer);
  }
}

/** Name and code of an error, where they look like such; its message may quote a key or a signature. */
export function failureOf(who: string, error: unknown): string {
  if (error instanceof AnswerTimeoutError) return `${who} ${error.message}`;
  if (!(error instanceof Error)) return `${who} failed`;
  const code =
    'code' in error && typeof error.code === 'string' && /^[A-Z0-9_]{1,40}$/.test(error.code) ? error.code : '';
  const kind = /^[A-Za-z]{1,40}$/.test(error.name) ? error.name : 'Error';
  return `${who} failed: ${kind}${code === '' ? '' : ` ${code}`}`;
}
