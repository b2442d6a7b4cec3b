import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import type { Json } from '../../model/json.ts';
import { originOf } from '../host-limits.ts';
import type { Hosts, HostTurn, RequestEnd } from '../hosts.ts';
import { type HandlerResult, type StepContext, TimeUpError } from './handler.ts';
import type { HttpRequestInputs } from './http-inputs.ts';

/** Kept by a step that waits for its turn at a host; the store finds it by `hostTurn`: see `listHostWaits`. */
export interface HostWaitState {
  /** The origin. */
  readonly hostTurn: string;
  /** Since when the circuit of the host has kept this attempt waiting; null while it waits for its limits. */
  readonly barredSince: number | null;
  /** What it waits for, in words that follow "because". */
  readonly why: string;
}

export function hostWaitIn(state: Json | undefined): HostWaitState | undefined {
  if (typeof state !== 'object' || state === null) return undefined;
  const { hostTurn, barredSince, why } = state as { readonly [key: string]: unknown };
  if (typeof hostTurn !== 'string') return undefined;
  return {
    hostTurn,
    barredSince: typeof barredSince === 'number' ? barredSince : null,
    why: typeof why === 'string' ? why : '',
  };
}

/**
 * An attempt waits at most so long for a host that does not answer; a host that is gone for good must not keep runs in flight
 * for ever. A day outlasts any announced maintenance, as with a Retry-After of a step.
 */
const LONGEST_BARRED_MS = DAY_MS;

/** The turn that a step asks for before its first request; what it yields else ends this call of the handler. */
export async function askFirst(
  hosts: Hosts,
  { context, url }: { readonly context: StepContext<HttpRequestInputs>; readonly url: URL },
): Promise<Turn | HandlerResult> {
  const { now } = context;
  const origin = originOf(url);
  const waited = hostWaitIn(context.resumed?.state);
  const turn = await hosts.ask({ ...requestFor(context, url), hasWaited: waited?.hostTurn === origin });
  if (turn.kind === 'go') return turn;
  const isBarred = turn.why === 'circuit';
  const barredSince = isBarred ? (waited?.barredSince ?? now()) : null;
  if (isBarred && (failsWhenOpen(context) || now() - (barredSince ?? 0) > LONGEST_BARRED_MS)) {
    return { kind: 'failed', code: 'circuit_open', message: `not sent: ${turn.message}`, retryable: true };
  }
  const latest = barredSince === null ? turn.until : barredSince + LONGEST_BARRED_MS + 1;
  const state: HostWaitState = { hostTurn: origin, barredSince, why: turn.message };
  return { kind: 'waiting', until: Math.min(turn.until, latest), state: { ...state } };
}

/** Later than any other step of the host: those are released before it. */
const BEHIND_OTHERS_MS = 2 * HOUR_MS;

/**
 * What a failed probe of an open circuit leads to: it costs the step no attempt. The step waits on, behind the others, so that
 * one whose request is the reason of the failure cannot be the only one that is ever tried.
 */
export function afterFailedProbe(
  failure: Extract<HandlerResult, { kind: 'failed' }>,
  { context, url }: { readonly context: StepContext<HttpRequestInputs>; readonly url: URL },
): HandlerResult {
  const now = context.now();
  const barredSince = hostWaitIn(context.resumed?.state)?.barredSince ?? now;
  if (failsWhenOpen(context) || now - barredSince > LONGEST_BARRED_MS) return failure;
  const until = Math.min(now + BEHIND_OTHERS_MS, barredSince + LONGEST_BARRED_MS + 1);
  const hostTurn = originOf(url);
  const state: HostWaitState = { hostTurn, barredSince, why: `${hostTurn} was tried again: ${failure.message}` };
  return { kind: 'waiting', until, state: { ...state } };
}

/** By default where the failure is provided for: else the steps for that case would wait too. */
function failsWhenOpen({ inputs, isFailureHandled }: StepContext<HttpRequestInputs>): boolean {
  return (inputs.whenCircuitOpen ?? (isFailureHandled ? 'fail' : 'wait')) === 'fail';
}

/** A redirect leads to a host whose turn does not come in time, or that is not asked now. */
export class NoTurnError extends Error {
  readonly code: 'circuit_open' | 'timeout';
  constructor({ why, message }: Extract<HostTurn, { kind: 'wait' }>) {
    super(
      why === 'circuit' ? `redirected, and not sent: ${message}` : `redirected, and its turn did not come: ${message}`,
    );
    this.name = 'NoTurnError';
    this.code = why === 'circuit' ? 'circuit_open' : 'timeout';
  }
}

/** The turn for the target of a redirect. The request cannot be parked half way, so it is waited for in the slot. */
export async function askNext(
  hosts: Hosts,
  { context, url, msLeft }: { context: StepContext<HttpRequestInputs>; url: URL; msLeft: number },
): Promise<Turn> {
  const turn = await hosts.ask({ ...requestFor(context, url), hasWaited: false, patienceMs: msLeft });
  if (turn.kind === 'wait') throw new NoTurnError(turn);
  return turn;
}

function requestFor({ inputs, signal }: StepContext<HttpRequestInputs>, url: URL) {
  return {
    origin: originOf(url),
    own: { perSecond: inputs.maxPerSecond, atOnce: inputs.maxConcurrent },
    answerMs: inputs.timeoutSeconds * 1000,
    signal,
  };
}

export type Turn = Extract<HostTurn, { kind: 'go' }>;

/** What an answer says of its host: 429 and 503 with a time, that it is not to be asked before; another 5xx, that it is not well. */
export function endOfAnswer(answer: {
  readonly status: number;
  readonly retryAfterMs: number | undefined;
  readonly isExpected: boolean;
  readonly isProbe: boolean;
}): RequestEnd {
  const { status, retryAfterMs = 0, isExpected, isProbe } = answer;
  const error = `answered ${status}`;
  if ((status === 429 || status === 503) && retryAfterMs > 0) return { kind: 'refused', error, forMs: retryAfterMs };
  if (status < 500 || (isExpected && isProbe)) return { kind: 'answered' };
  // What one step expects is no failure, and no sign that others get what they want.
  return isExpected ? { kind: 'none' } : { kind: 'failed', error };
}

// Names that cannot be resolved, addresses that are refused, and what this machine lacks.
const OWN_FAULTS =
  /^(?:EgressRefusedError$|ENOTFOUND|ENODATA|EAI_|EINVAL$|E[MN]FILE$|ENOBUFS|ENOMEM|EADDRNOTAVAIL|ERR_INVALID|UND_ERR_(?:INVALID|NOT_SUPPORTED|ABORTED))/;

/** What it says of a host that a request to it failed without an answer. */
export function endOfError(
  code: string,
  { isTimeUp, seconds, signal }: { readonly isTimeUp: boolean; readonly seconds: number; readonly signal: AbortSignal },
): RequestEnd {
  if (isTimeUp) return { kind: 'failed', error: `no complete answer within ${seconds} s` };
  if (signal.aborted) {
    // The step's own limit says as much of the host; a stop says nothing.
    return signal.reason instanceof TimeUpError
      ? { kind: 'failed', error: 'no complete answer within the time of a step' }
      : { kind: 'none' };
  }
  const error = code === 'EgressRefusedError' ? 'egress_refused' : code;
  return { kind: OWN_FAULTS.test(code) ? 'none' : 'failed', error };
}
