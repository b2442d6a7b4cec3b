import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import type { Json } from '../../model/json.ts';
import { MOST_PROBES, type RequestEnd } from '../circuit.ts';
import { originOf } from '../host-limits.ts';
import type { Hosts, HostTurn } from '../hosts.ts';
import { type HandlerResult, type StepContext, TimeUpError } from './handler.ts';
import type { HttpRequestInputs } from './http-inputs.ts';

/** Kept by a step that waits for its turn at a host; the store finds it by `hostTurn`: see `listHostWaits`. */
export interface HostWaitState {
  /** The origin. */
  readonly hostTurn: string;
  /** Since when the circuit of the host has kept this attempt waiting; null while it waits for its limits. */
  readonly barredSince: number | null;
  /** Probes of the open circuit in a row that it has made in vain. */
  readonly probes: number;
  /** What it waits for, in words that follow "because". */
  readonly why: string;
}

export function hostWaitIn(state: Json | undefined): HostWaitState | undefined {
  if (typeof state !== 'object' || state === null) return undefined;
  const { hostTurn, barredSince, probes, why } = state as { readonly [key: string]: unknown };
  if (typeof hostTurn !== 'string') return undefined;
  return {
    hostTurn,
    barredSince: typeof barredSince === 'number' ? barredSince : null,
    probes: typeof probes === 'number' ? probes : 0,
    why: typeof why === 'string' ? why : '',
  };
}

/**
 * Longest wait of an attempt for a host that does not answer: a host that is permanently gone must not keep runs in
 * flight forever. A day outlasts any announced maintenance, as with a Retry-After of a step.
 */
const LONGEST_BARRED_MS = DAY_MS;

/** The turn that a step needs before its first request; any other result ends this call of the handler. */
export async function askFirst(
  hosts: Hosts,
  { context, url }: { readonly context: StepContext<HttpRequestInputs>; readonly url: URL },
): Promise<Turn | HandlerResult> {
  const { now } = context;
  const origin = originOf(url);
  const waited = hostWaitIn(context.resumed?.state);
  const hasWaited = waited?.hostTurn === origin;
  const probes = hasWaited ? waited.probes : 0;
  const mayRepeat = failsWhenOpen(context) ? {} : { probes };
  const turn = await hosts.ask({ ...requestFor(context, url), hasWaited, ...mayRepeat });
  if (turn.kind === 'go') return turn;
  const isBarred = turn.why === 'circuit';
  const barredSince = isBarred ? (waited?.barredSince ?? now()) : null;
  if (isBarred && (failsWhenOpen(context) || now() - (barredSince ?? 0) > LONGEST_BARRED_MS)) {
    return { kind: 'failed', code: 'circuit_open', message: `not sent: ${turn.message}`, retryable: true };
  }
  const latest = barredSince === null ? turn.until : barredSince + LONGEST_BARRED_MS + 1;
  const state: HostWaitState = { hostTurn: origin, barredSince, probes, why: turn.message };
  return { kind: 'waiting', until: Math.min(turn.until, latest), state: { ...state } };
}

/** Sooner than most steps of the host, and later than its next probe is due: it is released for that. */
const BEFORE_OTHERS_MS = 10_000;
/** Later than any other step of the host: those are released before it. */
const BEHIND_OTHERS_MS = 2 * HOUR_MS;

/**
 * What a failed probe of an open circuit leads to: it costs the step no attempt. The step makes the next probes too, and then
 * waits on behind the others: see `MOST_PROBES`.
 */
export function afterFailedProbe(
  failure: Extract<HandlerResult, { kind: 'failed' }>,
  { context, url }: { readonly context: StepContext<HttpRequestInputs>; readonly url: URL },
): HandlerResult {
  const now = context.now();
  const hostTurn = originOf(url);
  const waited = hostWaitIn(context.resumed?.state);
  const barredSince = waited?.barredSince ?? now;
  if (failsWhenOpen(context) || now - barredSince > LONGEST_BARRED_MS) return failure;
  const probes = ((waited?.hostTurn === hostTurn ? waited.probes : 0) + 1) % MOST_PROBES;
  const waitMs = probes > 0 ? BEFORE_OTHERS_MS : BEHIND_OTHERS_MS;
  const until = Math.min(now + waitMs, barredSince + LONGEST_BARRED_MS + 1);
  const state: HostWaitState = {
    hostTurn,
    barredSince,
    probes,
    why: `${hostTurn} was tried again: ${failure.message}`,
  };
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
      why === 'circuit' ? `redirected, but not sent: ${message}` : `redirected, but its turn did not come: ${message}`,
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

function requestFor({ inputs, signal, flowId, stepKey }: StepContext<HttpRequestInputs>, url: URL) {
  return {
    origin: originOf(url),
    // The iterations of a loop are the same step.
    step: `${flowId} ${stepKey.replace(/\.\d+(?=\.)/g, '')}`,
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
  // An error status that one step expects is not a failure of the host, but also no proof that other requests succeed.
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
