import { z } from 'zod';
import { type HandlerResult, type StepContext, TimeUpError } from '../../flows/handlers/handler.ts';
import { DAY_MS } from '../../model/clock.ts';
import type { Json } from '../../model/json.ts';
import { callerOf, type RequestEnd, withoutIterations } from './circuit.ts';
import { originOf } from './host-limits.ts';
import type { Hosts, HostTurn } from './hosts.ts';
import type { HttpRequestInputs } from './http-inputs.ts';

/** State of a step that waits for its turn at a host; the store finds it by `hostTurn`: see `listHostWaits`. */
const hostWait = z.object({
  /** The queue that it waits in. */
  hostTurn: z.string(),
  /** Start of the wait: steps that have waited longest go first. */
  since: z.number(),
  /** Since when a circuit of the host has delayed this attempt; null while it waits for limits. */
  barredSince: z.number().nullable(),
  /** Number of failed probes of the open circuit that it has made in a row. */
  probes: z.number(),
  /** The reason for the wait, as text to follow "because". */
  why: z.string(),
});

export function hostWaitIn(state: Json | undefined): z.output<typeof hostWait> | undefined {
  return hostWait.safeParse(state).data;
}

/**
 * Longest wait of an attempt for a host that does not answer: a host that is gone for good must not keep runs in flight
 * forever. A day outlasts any announced maintenance; a step's Retry-After has the same limit.
 */
const LONGEST_BARRED_MS = DAY_MS;
/**
 * Probes that a step makes in a row before it waits like a new one. If each probe came from another step, a host that
 * refuses the first calls of every step would stay down for ever; if all came from one, so would a host that this
 * step's request breaks.
 */
const MOST_PROBES = 3;

/** Asks for the turn that a step needs before its first request; any other result ends this call of the handler. */
export async function askFirst(hosts: Hosts, context: StepContext<HttpRequestInputs>): Promise<Turn | HandlerResult> {
  const now = context.now();
  const waited = hostWaitIn(context.resumed?.state);
  const turn = await hosts.ask({ ...requestFor(context, context.inputs.url), waitedIn: waited?.hostTurn });
  if (turn.kind === 'go') return turn;
  const { queue: hostTurn, why, message } = turn;
  const barredSince = why === 'circuit' ? (waited?.barredSince ?? now) : null;
  if (barredSince !== null && (failsWhenOpen(context) || now - barredSince > LONGEST_BARRED_MS)) {
    return { kind: 'failed', code: 'circuit_open', message: `not sent: ${message}`, retryable: true };
  }
  const { since = now, probes = 0 } = waited ?? {};
  return waitFor({ hostTurn, since, barredSince, probes, why: message }, now);
}

/**
 * The result of a failed probe of an open circuit: it costs the step no attempt. The step has waited longest, so it
 * makes the next probes too: see `MOST_PROBES`.
 */
export function afterFailedProbe(
  failure: Extract<HandlerResult, { kind: 'failed' }>,
  { context, queue: hostTurn }: { readonly context: StepContext<HttpRequestInputs>; readonly queue: string },
): HandlerResult {
  const now = context.now();
  const { since = now, barredSince = null, probes: before = 0 } = hostWaitIn(context.resumed?.state) ?? {};
  const barred = barredSince ?? now;
  if (failsWhenOpen(context) || now - barred > LONGEST_BARRED_MS) return failure;
  const probes = (before + 1) % MOST_PROBES;
  const why = `${originOf(context.inputs.url)} was tried again: ${failure.message}`;
  return waitFor({ hostTurn, since: probes === 0 ? now : since, barredSince: barred, probes, why }, now);
}

/** Steps are released in the order of their times. A step that was not released in a day asks again itself. */
function waitFor(state: z.output<typeof hostWait>, now: number): HandlerResult {
  const until = state.since + DAY_MS;
  return { kind: 'waiting', until: until > now ? until : now + DAY_MS, state: { ...state } };
}

/** By default, fails if the failure is handled: otherwise the steps that handle it would wait too. */
function failsWhenOpen({ inputs, isFailureHandled }: StepContext<HttpRequestInputs>): boolean {
  return (inputs.whenCircuitOpen ?? (isFailureHandled ? 'fail' : 'wait')) === 'fail';
}

/** A redirect to a host whose turn does not come in time, or that is not called now. */
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

/** The turn for the target of a redirect. A half-done request cannot be parked, so it waits in the slot. */
export async function askNext(
  hosts: Hosts,
  { context, url, msLeft }: { context: StepContext<HttpRequestInputs>; url: URL; msLeft: number },
): Promise<Turn> {
  const turn = await hosts.ask({ ...requestFor(context, url), mostWaitMs: msLeft });
  if (turn.kind === 'wait') throw new NoTurnError(turn);
  return turn;
}

function requestFor({ inputs, signal, flowId, stepKey, secretReferences }: StepContext<HttpRequestInputs>, url: URL) {
  // Credentials are compared by their names, so no digest of a secret has to be protected from guessing.
  const credentials = [...new Set(secretReferences)].sort().join(', ');
  return {
    origin: originOf(url),
    // A host distinguishes its callers by their credentials.
    caller: credentials || `flow ${flowId}`,
    // One path of the host: its answer to one delivery's request shows nothing about the calls of others.
    endpoint: callerOf({ stepKey, flowId }, credentials),
    step: `${flowId} ${withoutIterations(stepKey)}`,
    own: { perSecond: inputs.maxPerSecond, atOnce: inputs.maxConcurrent },
    answerMs: inputs.timeoutSeconds * 1000,
    signal,
  };
}

export type Turn = Extract<HostTurn, { kind: 'go' }>;

/** The host's state from an answer: 429 or 503 with a time means a pause; another 5xx means a failing host. */
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
  // If a step expects an error status, the host did not fail, but other requests need not succeed either.
  return isExpected ? { kind: 'none' } : { kind: 'failed', error };
}

/** Codes for no connection at all. If a connection breaks, the request may be the cause. */
const AWAY = /^(?:E(?:CONNREFUSED|HOSTUNREACH|HOSTDOWN|NETUNREACH|NETDOWN|TIMEDOUT)$|UND_ERR_CONNECT_TIMEOUT)/;
// Unresolvable names, refused addresses, and shortages of this machine.
const OWN_FAULTS =
  /^(?:EgressRefusedError$|ENOTFOUND|ENODATA|EAI_|EINVAL$|E[MN]FILE$|ENOBUFS|ENOMEM|EADDRNOTAVAIL|ERR_INVALID|UND_ERR_(?:INVALID|NOT_SUPPORTED|ABORTED))/;

/** The host's state from a request that failed without an answer. */
export function endOfError(
  code: string,
  { isTimeUp, seconds, signal }: { readonly isTimeUp: boolean; readonly seconds: number; readonly signal: AbortSignal },
): RequestEnd {
  if (isTimeUp) return { kind: 'failed', error: `no complete answer within ${seconds} s` };
  if (signal.aborted) {
    // The step's own time limit shows as much about the host; a stop shows nothing.
    return signal.reason instanceof TimeUpError
      ? { kind: 'failed', error: 'no complete answer within the time of a step' }
      : { kind: 'none' };
  }
  const error = code === 'EgressRefusedError' ? 'egress_refused' : code;
  return OWN_FAULTS.test(code) ? { kind: 'none', error } : { kind: 'failed', error, isAway: AWAY.test(code) };
}
