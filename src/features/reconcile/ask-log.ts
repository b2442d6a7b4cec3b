import { createEgress } from '../../flows/handlers/egress.ts';
import { loadOnce } from '../../flows/load-once.ts';
import { MASK, maskerOf } from '../../manifest/mask.ts';
import { HOUR_MS } from '../../model/clock.ts';
import { codeOf } from '../../model/error-kind.ts';
import { parseJson } from '../../model/json.ts';
import { serially } from '../../model/serially.ts';
import { originOf } from '../http-request/host-limits.ts';
import type { Hosts } from '../http-request/hosts.ts';
import { retryAfterMs } from '../http-request/http-request.ts';
import { endOfAnswer, endOfError } from '../http-request/http-turns.ts';
import { sendTraced } from '../http-request/traced-request.ts';
import type { SourceAnswer, SourceRequest } from './source.ts';

/** Why a log cannot be asked. The first four need a person; the others may pass by themselves. */
export type AskFailure = 'refused' | 'not_found' | 'not_permitted' | 'not_understood' | 'rate_limited' | 'unavailable';

/** A failed request to a publisher's log; its message contains no secret. */
export class LogError extends Error {
  readonly failure: AskFailure;
  /** How long the publisher asks to wait. */
  readonly waitMs: number | undefined;
  constructor(failure: AskFailure, message: string, waitMs?: number) {
    super(message);
    this.name = 'LogError';
    this.failure = failure;
    this.waitMs = waitMs;
  }
}

/**
 * Sends a request as a step would: only to addresses that steps may call, in turn with steps, and not while the host's
 * circuit is open. Keep only the result of `use`: of all long answers, one at a time is held.
 */
export type AskLog = <Result>(
  request: SourceRequest,
  asking: Asking,
  use: (answer: SourceAnswer) => Result | Promise<Result>,
) => Promise<Result>;

interface Asking {
  /** The caller that the host's limits count the request for. */
  readonly caller: string;
  /** Masked wherever an answer repeats them. */
  readonly secrets: readonly string[];
  readonly signal: AbortSignal;
}

interface AskServices {
  readonly egressAllow: readonly string[];
  readonly hosts: Pick<Hosts, 'ask'>;
  readonly now: () => number;
}

// GitHub caps payloads at 25 MB: docs.github.com/webhooks/webhook-events-and-payloads, read 2026-11.
const MAX_BYTES = 33_554_432;
/** As text and JSON, an answer takes several times its length; most pages of a hundred items are shorter than this. */
const LONG_BYTES = 2_097_152;
const [ANSWER_SECONDS, MOST_WAIT_MS] = [30, 10_000];
/** A reset further ahead is a mistake, or comes from a different clock. */
const LONGEST_PAUSE_MS = HOUR_MS;
const MESSAGE_CHARACTERS = 200;

export function createAskLog({ egressAllow, hosts, now }: AskServices): AskLog {
  const egress = createEgress(egressAllow);
  const longAnswers = oneAtATime();
  // Loaded for the first request, because most services have no such trigger.
  const openAgent = loadOnce(async () => {
    const { Agent } = await import('undici');
    return new Agent({ connect: { lookup: egress.lookup }, maxResponseSize: MAX_BYTES });
  });
  const exchange = async (
    { url: text, method, headers, body }: SourceRequest,
    { signal, onLong }: { readonly signal: AbortSignal; readonly onLong: () => Promise<void> },
  ) => {
    const url = new URL(text);
    const request = { url, method, headers: new Map([['user-agent', 'sluice'], ...Object.entries(headers)]) };
    const tracing = { mask: () => MASK, redirects: 0, isExpected: () => false, errorType: codeOf };
    const agent = await openAgent();
    return sendTraced(request, tracing, async (traced) => {
      const answer = await agent.request({
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        method,
        headers: Object.fromEntries(traced.headers),
        body: body ?? null,
        signal,
      });
      const given = Object.entries(answer.headers).map(([name, value]) => [name, [value].flat().join(', ')]);
      return { status: answer.statusCode, headers: Object.fromEntries(given), text: await textOf(answer.body, onLong) };
    });
  };
  const answerTo = async (request: SourceRequest, { caller, secrets, signal }: Asking, turnOfLong: LongTurn) => {
    const origin = originOf(new URL(request.url));
    try {
      egress.checkLiteral(new URL(request.url).hostname);
    } catch (error) {
      throw new LogError('not_permitted', messageOf(error));
    }
    const turn = await hosts.ask({
      ...{ origin, caller, endpoint: caller, step: caller, own: {}, signal },
      ...{ mostWaitMs: MOST_WAIT_MS, answerMs: ANSWER_SECONDS * 1000 },
    });
    if (turn.kind === 'wait') throw new LogError('unavailable', turn.message);
    const time = AbortSignal.timeout(ANSWER_SECONDS * 1000);
    try {
      const either = AbortSignal.any([signal, time]);
      const answer = await exchange(request, { signal: either, onLong: () => turnOfLong.take(either) });
      const { status } = answer;
      const waitMs = pauseOf(answer, now());
      turn.end(endOfAnswer({ status, retryAfterMs: waitMs, isExpected: false, isProbe: turn.probed !== undefined }));
      return jsonIn(answer, { secrets, waitMs });
    } catch (error) {
      if (error instanceof LogError) throw error;
      const code = codeOf(error);
      if (signal.aborted) throw error;
      // The host did nothing wrong.
      if (turnOfLong.isAwaited) throw new LogError('unavailable', LONG_AT_ONCE);
      turn.end(endOfError(code, { isTimeUp: time.aborted, seconds: ANSWER_SECONDS, signal }));
      // The service is stopping; the log is not at fault.
      if (signal.aborted) throw error;
      if (code === 'EgressRefusedError') throw new LogError('not_permitted', messageOf(error));
      if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE')
        throw new LogError('not_understood', `answered more than ${MAX_BYTES} bytes`);
      throw new LogError('unavailable', time.aborted ? `gave no answer within ${ANSWER_SECONDS} s` : code);
    } finally {
      turn.end({ kind: 'none' });
    }
  };
  return async (request, asking, use) => {
    const turnOfLong = longAnswers();
    try {
      return await use(await answerTo(request, asking, turnOfLong));
    } finally {
      turnOfLong.end();
    }
  };
}

const LONG_AT_ONCE = `answers with more than ${LONG_BYTES} bytes while other logs do; asked again soon`;

/** Awaits `onLong` before it holds more than a short answer. */
async function textOf(body: AsyncIterable<Uint8Array>, onLong: () => Promise<void>): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    const wasLong = bytes > LONG_BYTES;
    bytes += chunk.byteLength;
    if (bytes > LONG_BYTES && !wasLong) await onLong();
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** The turn of one request among those with long answers. */
interface LongTurn {
  readonly isAwaited: boolean;
  /** Rejects when the signal aborts. */
  take(signal: AbortSignal): Promise<void>;
  end(): void;
}

function oneAtATime(): () => LongTurn {
  const queue = serially();
  return () => {
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    let isAwaited = false;
    const take = async (signal: AbortSignal) => {
      signal.throwIfAborted();
      isAwaited = true;
      await new Promise<void>((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
        void queue.run(() => {
          resolve();
          return ended;
        });
      });
      isAwaited = false;
    };
    return {
      take,
      end: () => end(),
      get isAwaited() {
        return isAwaited;
      },
    };
  };
}

type Answer = Omit<SourceAnswer, 'json'>;

function jsonIn(
  answer: Answer,
  { secrets, waitMs }: { readonly secrets: readonly string[]; readonly waitMs: number | undefined },
): SourceAnswer {
  const { status, text } = answer;
  const said = reasonIn(text, secrets);
  if (waitMs !== undefined && (status === 429 || status === 403))
    throw new LogError('rate_limited', `answered ${status}${said}`, waitMs);
  if (status === 429) throw new LogError('rate_limited', `answered 429${said}`);
  if (status === 401 || status === 403) throw new LogError('refused', `answered ${status}${said}`);
  if (status === 404 || status === 410) throw new LogError('not_found', `answered ${status}${said}`);
  if (status >= 300 && status < 400)
    throw new LogError('not_found', `answered ${status}: what is asked for has moved, and redirects are not followed`);
  if (status >= 400 && status < 500) throw new LogError('not_understood', `answered ${status}${said}`);
  if (status < 200 || status >= 300) throw new LogError('unavailable', `answered ${status}${said}`, waitMs);
  try {
    return { ...answer, json: parseJson(text) };
  } catch {
    throw new LogError('not_understood', 'answered with what is not JSON');
  }
}

/** How long the publisher asks to wait: `Retry-After`, or a used-up limit and its reset in seconds since the epoch. */
function pauseOf({ headers }: Answer, now: number): number | undefined {
  const after = retryAfterMs(headers['retry-after'], now);
  if (after !== undefined) return Math.min(after, LONGEST_PAUSE_MS);
  const reset = headers['x-ratelimit-reset'] ?? '';
  if (headers['x-ratelimit-remaining'] !== '0' || !/^\d{1,12}$/.test(reset)) return undefined;
  return Math.min(Math.max(Number(reset) * 1000 - now, 1000), LONGEST_PAUSE_MS);
}

/** The API's own error message, with our secrets masked. */
function reasonIn(text: string, secrets: readonly string[]): string {
  let message: unknown;
  try {
    const { message: plain, error } = JSON.parse(text) as { message?: unknown; error?: { message?: unknown } };
    message = plain ?? error?.message;
  } catch {
    return '';
  }
  if (typeof message !== 'string') return '';
  return `: ${String(maskerOf(secrets)(message)).slice(0, MESSAGE_CHARACTERS)}`;
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
