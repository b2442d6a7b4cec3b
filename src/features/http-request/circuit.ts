import { z } from 'zod';
import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';

/**
 * Whether a host is called, by all steps or by one.
 *
 * Closed: it is called. Open: it is not called until a time, because of too many failures in a row or because it asked
 * for a pause. Probing, elsewhere named half-open: one request tries it. If that is answered, the circuit closes; if it
 * fails, the circuit opens for longer. All functions are pure; times are milliseconds since the Unix epoch.
 */
export type Circuit = ClosedCircuit | OpenCircuit;

interface ClosedCircuit {
  readonly state: 'closed';
  /** Consecutive failures. */
  readonly failures: number;
}

/** A circuit that is not closed. */
export interface OpenCircuit extends z.output<typeof openCircuit> {}

/** The stored form. */
export const openCircuit = z
  .object({
    state: z.enum(['open', 'probing']),
    /** Describes the requests that it applies to; null for all. */
    caller: z.string().nullable(),
    /** `asked`: the host answered 429 or 503 with a Retry-After. */
    why: z.enum(['failed', 'asked']),
    since: z.number(),
    failures: z.number(),
    lastError: z.string(),
    /** Number of failed probes. */
    probes: z.number(),
    /** The time from which the next request can probe; during a probe, the time at which its answer is overdue. */
    until: z.number(),
  })
  .readonly();

export const CLOSED: ClosedCircuit = { state: 'closed', failures: 0 };

/** A restarting receiver needs seconds: the first probe comes after this time, and each failed one doubles the wait. */
const FIRST_OPEN_MS = 5000;
/** The longest wait for the next probe, for a receiver that is back. */
const LONGEST_OPEN_MS = MINUTE_MS;
/**
 * Longest pause that a host can ask for: it is tried once an hour in any case. One bad answer must not stop all flows
 * for days.
 */
const LONGEST_ASKED_MS = HOUR_MS;

/** The result of a request for the circuit of its host. Report it once in every case. */
export type RequestEnd =
  | { readonly kind: 'answered' }
  /** No connection (`isAway`), no answer in time, or a 5xx; the text contains no secret. */
  | { readonly kind: 'failed'; readonly error: string; readonly isAway?: boolean }
  /** A 429 or 503 with a time for the next request. */
  | { readonly kind: 'refused'; readonly error: string; readonly forMs: number }
  /** It was not sent or was given up here (no text), or failed for a reason that is not the host's (with a text). */
  | { readonly kind: 'none'; readonly error?: string };

interface Requested {
  readonly at: number;
  /** Whether the request was the probe of this circuit. */
  readonly isProbe: boolean;
  readonly caller: string | null;
  /** Consecutive failures that open the circuit. */
  readonly threshold: number;
  /** Returns a number from 0 up to 1. */
  readonly random: () => number;
}

/** The circuit after a request has ended. */
export function afterRequest(circuit: Circuit, ended: RequestEnd, about: Requested): Circuit {
  if (circuit.state !== 'closed' && !about.isProbe) {
    // A request sent before the circuit opened shows nothing new, except for how long the host wants a pause.
    if (ended.kind !== 'refused' || circuit.state === 'probing') return circuit;
    return { ...circuit, lastError: ended.error, until: Math.max(circuit.until, pausedUntil(ended, about)) };
  }
  if (ended.kind === 'failed') return afterFailure(circuit, ended.error, about);
  // A host that asks for a pause is up, so this is not a failure.
  if (ended.kind === 'refused') {
    return { ...opened(circuit, ended.error, about), why: 'asked', failures: 0, until: pausedUntil(ended, about) };
  }
  if (ended.kind === 'answered') return circuit.state === 'closed' && circuit.failures === 0 ? circuit : CLOSED;
  if (circuit.state === 'closed') return circuit;
  // Whatever made the probe fail, the host is not back. If it was not sent, the next request probes.
  return ended.error === undefined
    ? { ...circuit, state: 'open', until: about.at }
    : afterFailure(circuit, ended.error, about);
}

function afterFailure(circuit: Circuit, error: string, about: Requested): Circuit {
  const failures = circuit.failures + 1;
  if (circuit.state === 'closed' && failures < about.threshold) return { ...circuit, failures };
  const probes = circuit.state === 'closed' ? 0 : circuit.probes + 1;
  const openMs = Math.min(FIRST_OPEN_MS * 2 ** Math.min(probes, 10), LONGEST_OPEN_MS);
  // Jitter, so that circuits that opened together are not probed together.
  const until = Math.ceil(about.at + openMs * (0.9 + 0.2 * about.random()));
  return { ...opened(circuit, error, about), failures, probes, until };
}

function opened(circuit: Circuit, lastError: string, { at, caller }: Requested): OpenCircuit {
  if (circuit.state !== 'closed') return { ...circuit, state: 'open', why: 'failed', lastError };
  return { state: 'open', caller, why: 'failed', since: at, failures: 0, lastError, probes: 0, until: at };
}

function pausedUntil({ forMs }: { readonly forMs: number }, { at }: Requested): number {
  return Math.ceil(at + Math.min(forMs, LONGEST_ASKED_MS));
}

/** Whether the next request can probe; also true if a probe is overdue. */
export function mayProbe({ until }: OpenCircuit, at: number): boolean {
  // A time so far ahead was written before the clock was set back.
  return until <= at || until > at + 2 * LONGEST_ASKED_MS;
}

/** Begins a probe; `forMs` is the longest time for its answer. */
export function beginProbe(circuit: OpenCircuit, at: number, forMs: number): OpenCircuit {
  return { ...circuit, state: 'probing', until: Math.ceil(at + Math.min(forMs, LONGEST_ASKED_MS)) };
}

/**
 * Nothing waits for the host and nothing has called it for long, so its old state says nothing about its current one.
 */
export function isForgotten(circuit: OpenCircuit, now: number): boolean {
  return mayProbe(circuit, now) && Math.abs(now - circuit.until) > HOUR_MS;
}

/** A receiver that limits its callers may ask for a second now and then: people only need to know of longer pauses. */
const NOTABLE_MS = MINUTE_MS;

/** Whether people are notified that the host is not called. */
export function isNotable(circuit: Circuit): boolean {
  if (circuit.state === 'closed') return false;
  return circuit.why === 'failed' || circuit.until - circuit.since >= NOTABLE_MS;
}

/** The key of a step within its loop: the iterations of a loop are the same step. */
export const withoutIterations = (stepKey: string) => stepKey.replace(/\.\d+(?=\.)/g, '');

/** Describes the requests of one step; a host also distinguishes them by the secrets that they carry. */
export function callerOf({ stepKey, flowId }: Step, secrets = ''): string {
  const step = `step ${withoutIterations(stepKey)} of flow ${flowId}`;
  return secrets === '' ? step : `${step} with ${secrets}`;
}

interface Step {
  readonly stepKey: string;
  readonly flowId: string;
}

/** Among the open circuits of a host, the one that a step waits for: never that of another step. */
export function circuitOf(step: Step, circuits: readonly OpenCircuit[]): OpenCircuit | undefined {
  const own = callerOf(step);
  return circuits.find(({ caller }) => caller === null || caller === own || caller.startsWith(`${own} with `));
}

/** Readable texts for error codes of Node's sockets and lookups, and of its HTTP client. */
const SAID: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed',
  EPIPE: 'connection closed',
  UND_ERR_SOCKET: 'connection closed',
  ETIMEDOUT: 'no answer to the connection',
  UND_ERR_CONNECT_TIMEOUT: 'no answer to the connection',
  EHOSTUNREACH: 'no way to the host',
  ENETUNREACH: 'no way to the host',
  EHOSTDOWN: 'no way to the host',
  ENOTFOUND: 'its name is unknown',
  EAI_AGAIN: 'its name could not be looked up',
};

/** Why steps wait for a host, for a person who looks at one of them. */
export function circuitText(origin: string, { caller, why, failures, lastError, since }: OpenCircuit): string {
  const at = new Date(since).toISOString().replace(/\.\d+Z$/, 'Z');
  const whose = caller === null ? '' : ` for ${caller}`;
  const error = SAID[lastError] ?? lastError;
  const host = origin.replace(/^https?:\/\//, '');
  if (why === 'asked') return `${host} asked at ${at} for a pause${whose}: ${error}`;
  return `${host} ${caller === null ? 'is down' : `fails${whose}`} since ${at}: ${error}, ${failures} requests in a row`;
}
