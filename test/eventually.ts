import { performance } from 'node:perf_hooks';
import { setImmediate, setTimeout as wait } from 'node:timers/promises';
import { inspect } from 'node:util';

// Uses real time even if a test fakes its timers: these names are bound before it does.

/** A longer wait than usual, and the reason for it. */
export interface Patience {
  readonly seconds: number;
  readonly because: string;
}

/** Starts, kills and requests on a busy machine take less; a missing answer fails long before the test's limit. */
const USUAL: Patience = { seconds: 45, because: 'longer than anything usual takes' };
const ASK_AGAIN_MS = 25;
/** Shown from each end of an answer. */
const SHOWN_CHARACTERS = 4000;

type Ask<T> = () => T | PromiseLike<T>;
type IsThere<T> = (answer: T) => boolean;

/**
 * Asks until `isThere` accepts the answer, and returns it. After the time limit, fails with what it waited for and the
 * last answer. If `ask` rejects, fails at once.
 */
export function eventually<T, Wanted extends T>(
  ask: Ask<T>,
  isThere: (answer: T) => answer is Wanted,
  patience?: Patience,
): Promise<Wanted>;
export function eventually<T>(ask: Ask<T>, isThere: IsThere<T>, patience?: Patience): Promise<T>;
export function eventually<T>(ask: Ask<T>, isThere: IsThere<T>, patience = USUAL): Promise<T> {
  return askAgain(ask, isThere, { ...patience, pause: () => wait(ASK_AGAIN_MS) });
}

/** Like `eventually`, but asks at each turn of the event loop: for events in this process. */
export function until<T>(ask: Ask<T>, isThere: IsThere<T> = Boolean): Promise<T> {
  return askAgain(ask, isThere, { ...USUAL, pause: () => setImmediate() });
}

async function askAgain<T>(
  ask: Ask<T>,
  isThere: IsThere<T>,
  { seconds, because, pause }: Patience & { pause(): Promise<unknown> },
): Promise<T> {
  const end = performance.now() + seconds * 1000;
  for (let last = () => 'none'; ; ) {
    const answered = await answeredBy(end, ask());
    if (answered !== undefined) {
      const { answer } = answered;
      if (isThere(answer)) return answer;
      last = () => shown(answer);
    }
    if (answered === undefined || performance.now() >= end) {
      const wanted = isThere === Boolean ? '' : `\nthat is\n  ${isThere}`;
      const late = answered === undefined ? ' (another was under way)' : '';
      const what = `waited ${seconds} s (${because}) for an answer of\n  ${ask}${wanted}`;
      throw new Error(`${what}\nThe last answer${late}: ${last()}`);
    }
    await pause();
  }
}

/** `then` sends a request that Fastify injects. */
const isThenable = <T>(given: T | PromiseLike<T>): given is PromiseLike<T> =>
  typeof (given as Partial<PromiseLike<T>> | null | undefined)?.then === 'function';

/** Undefined if the time is up before the answer. */
async function answeredBy<T>(end: number, given: T | PromiseLike<T>): Promise<{ answer: T } | undefined> {
  if (!isThenable(given)) return { answer: given };
  const over = new AbortController();
  const timeIsUp = wait(Math.max(end - performance.now(), 1), undefined, { signal: over.signal });
  // Aborted once the answer has come.
  timeIsUp.catch(() => {});
  try {
    return await Promise.race([given.then((answer) => ({ answer })), timeIsUp]);
  } finally {
    over.abort();
  }
}

function shown(answer: unknown): string {
  const text = typeof answer === 'string' ? answer : inspect(answer, { depth: 8, maxArrayLength: null });
  if (text.length <= 2 * SHOWN_CHARACTERS) return text;
  return `${text.slice(0, SHOWN_CHARACTERS)}\n…\n${text.slice(-SHOWN_CHARACTERS)}`;
}
