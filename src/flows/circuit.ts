import { z } from 'zod';
import { HOUR_MS, MINUTE_MS } from '../model/clock.ts';

/**
 * Whether a host is called.
 *
 * Closed: it is called. Open: it is not called until `probeAt`, because of too many consecutive failures or because it
 * asked for a pause; then one request probes it. An answered probe closes the circuit, and the host is called slowly at
 * first; a failed probe opens it for longer. Until the host has answered a few requests more, it is on probation: few
 * failures open the circuit again, and for longer than before. All functions are pure; times are milliseconds since the
 * Unix epoch.
 */
export type Circuit = ClosedCircuit | OpenCircuit;

export interface ClosedCircuit {
  readonly phase: 'closed';
  /** In a row. */
  readonly failures: number;
  /** How often it has opened, or the probes of a step failed, since the host was last well. */
  readonly opens: number;
  /** Since it closed, while the host is asked slowly. */
  readonly answers: number;
  /** Since when the host is asked slowly; null at full speed. */
  readonly rampSince: number | null;
  /** Requests a second at the beginning of that. */
  readonly rampPerSecond: number;
}

export interface OpenCircuit extends z.output<typeof openCircuit> {}

/** As it is stored. */
export const openCircuit = z
  .object({
    phase: z.literal('open'),
    /** `asked`: the host answered 429 or 503 with a Retry-After. */
    why: z.enum(['failed', 'asked']),
    since: z.number(),
    opens: z.number(),
    failures: z.number(),
    lastError: z.string(),
    /** Requests a second once it closes; twice as many after each second. */
    rampPerSecond: z.number().default(2),
    probeAt: z.number(),
    /** Until then the answer to a probe is waited for; null where none is under way. */
    probingUntil: z.number().nullable(),
    /** Until then only the step whose probe failed may probe; null where it does not come again. */
    heldUntil: z.number().nullable().default(null),
  })
  .readonly();

const RAMP_PER_SECOND = 2;

export const CLOSED: ClosedCircuit = {
  phase: 'closed',
  failures: 0,
  opens: 0,
  answers: 0,
  rampSince: null,
  rampPerSecond: RAMP_PER_SECOND,
};

/**
 * A restart of the receiver takes seconds: it is tried again after this time, and after twice as long with each step whose
 * probes fail.
 */
const FIRST_OPEN_MS = 5000;
/** A receiver that is back waits no longer than that for the next probe. */
const LONGEST_OPEN_MS = MINUTE_MS;
/**
 * Longest pause that a host may ask for: it is tried once an hour in any case. One bad answer must not stop all flows
 * for days.
 */
const LONGEST_ASKED_MS = HOUR_MS;
/** Answers, the one to the probe among them, that end the probation; failures in a row that open the circuit again meanwhile. */
const PROBATION = 5;
/**
 * A step makes so many probes in a row before another step takes its place. A host that refuses the first calls of every
 * step would be down for ever if each probe came from another one, and a request that breaks the host if all came from one.
 */
export const MOST_PROBES = 3;
/** The step whose probe failed is released within a second or two of the time of the next; it may have been cancelled. */
const HELD_MS = 10_000;
/** From 2 a second, doubling each second, the rate reaches 2048 after this time; then there is no limit. */
const RAMP_MS = 10_000;

/** What a request said of its host. To be told once, whatever happens. */
export type RequestEnd =
  | { readonly kind: 'answered' }
  /** No connection, no answer in time, or a 5xx; in words that hold no secret. */
  | { readonly kind: 'failed'; readonly error: string }
  /** A 429 or 503 that says when to ask again. */
  | { readonly kind: 'refused'; readonly error: string; readonly forMs: number }
  /** It was not sent, was given up here, or failed for a reason that is not the host's: then in words too. */
  | { readonly kind: 'none'; readonly error?: string };

interface Requested extends Omit<HostFailure, 'error'> {
  /** Requests in the last second. */
  readonly perSecond: number;
}

/** A request is over; with a `threshold` of 0 it opens no circuit. */
export function afterRequest(circuit: Circuit, ended: RequestEnd, about: Requested): Circuit {
  if (ended.kind === 'answered') return afterAnswer(circuit, about);
  if (ended.kind === 'refused') {
    return about.threshold === 0 ? circuit : afterRefusal(circuit, { ...about, ...ended });
  }
  if (ended.kind === 'failed') return afterFailure(circuit, { ...about, error: ended.error });
  if (!about.isProbe) return circuit;
  // Whatever the probe failed for, the host is not back, and need not be asked again at once.
  if (ended.error !== undefined) return afterFailure(circuit, { ...about, error: ended.error });
  return endProbe(circuit);
}

/** A request failed in a way that says the host is not well; `random` yields a number from 0 up to 1. */
export function afterFailure(
  circuit: Circuit,
  { at, error, threshold, isProbe, willRepeat = false, random }: HostFailure,
): Circuit {
  const settled = settledAt(circuit, at);
  if (settled.phase === 'open') {
    // What was sent before it opened says nothing new.
    if (!isProbe) return settled;
    // The probes of one step are one try.
    const opens = willRepeat ? settled.opens : settled.opens + 1;
    const failures = settled.failures + 1;
    const times = opened(willRepeat ? 1 : opens, at, random);
    const heldUntil = willRepeat ? times.probeAt + HELD_MS : null;
    const more = { lastError: error, rampPerSecond: RAMP_PER_SECOND, ...times, heldUntil };
    return { ...settled, why: 'failed', opens, failures, ...more };
  }
  const failures = settled.failures + 1;
  const isOnProbation = settled.rampSince !== null && settled.answers < PROBATION;
  const most = isOnProbation ? Math.min(threshold, PROBATION) : threshold;
  if (threshold === 0 || failures < most) return { ...settled, failures, rampSince: setBack(settled, at) };
  const opens = settled.opens + 1;
  const times = { since: at, ...opened(opens, at, random) };
  return { phase: 'open', why: 'failed', opens, failures, lastError: error, rampPerSecond: RAMP_PER_SECOND, ...times };
}

/**
 * Failures in a row halve the rate of a host that comes back: it may be more than the host can take. A single one does
 * not: a host that fails at times, as it always did, must get its full speed back.
 */
function setBack({ rampSince, failures }: ClosedCircuit, at: number): number | null {
  return rampSince === null || failures === 0 ? rampSince : Math.min(at, rampSince + 1000);
}

interface Failure {
  readonly at: number;
  readonly error: string;
  /** Whether the request was the probe of an open circuit. */
  readonly isProbe: boolean;
}

interface HostFailure extends Failure {
  readonly threshold: number;
  /** The step whose probe failed will make the next one too. */
  readonly willRepeat?: boolean;
  readonly random: () => number;
}

/** Jitter, so that circuits that opened together are not probed together. */
function opened(opens: number, at: number, random: () => number) {
  const openMs = Math.min(FIRST_OPEN_MS * 2 ** Math.min(opens - 1, 10), LONGEST_OPEN_MS);
  return { probeAt: Math.ceil(at + openMs * (0.9 + 0.2 * random())), probingUntil: null, heldUntil: null };
}

/** The host answered: whatever it said, it is there. */
export function afterAnswer(circuit: Circuit, { at, isProbe }: Pick<Failure, 'at' | 'isProbe'>): Circuit {
  const settled = settledAt(circuit, at);
  if (settled.phase === 'open') return isProbe ? { ...rampFrom(settled, at), answers: 1 } : settled;
  if (settled.rampSince === null) return settled.failures === 0 ? settled : { ...settled, failures: 0 };
  const answers = settled.answers + 1;
  return { ...settled, failures: 0, answers, opens: answers < PROBATION ? settled.opens : 0 };
}

/** Closes an open circuit; the host is asked slowly at first. */
export function rampFrom({ opens, rampPerSecond }: OpenCircuit, at: number): ClosedCircuit {
  return { phase: 'closed', failures: 0, opens, answers: 0, rampSince: at, rampPerSecond };
}

/**
 * The host asked for a pause of this length, which is not a failure; of several such answers the longest counts.
 * Afterwards it is called at half the previous rate: it could not handle the full rate, but it can handle more than a
 * host that was down.
 */
export function afterRefusal(
  circuit: Circuit,
  { at, error, isProbe, forMs, perSecond }: Failure & { readonly forMs: number; readonly perSecond: number },
): Circuit {
  const probeAt = Math.ceil(at + Math.min(forMs, LONGEST_ASKED_MS));
  if (circuit.phase === 'closed') {
    const { opens } = circuit;
    const rampPerSecond = Math.max(RAMP_PER_SECOND, perSecond / 2);
    const times = { since: at, probeAt, probingUntil: null, heldUntil: null };
    return { phase: 'open', why: 'asked', opens, failures: 0, lastError: error, rampPerSecond, ...times };
  }
  const later = { ...circuit, probeAt: Math.max(probeAt, isProbe ? 0 : circuit.probeAt), lastError: error };
  return isProbe ? { ...later, why: 'asked', probingUntil: null, heldUntil: null } : later;
}

/**
 * Whether the next request may probe an open circuit; `isRepeat` says that the step's last request was a probe that failed.
 * A probe that was never answered leaves its place after its time.
 */
export function mayProbe({ probeAt, probingUntil, heldUntil }: OpenCircuit, at: number, isRepeat = false): boolean {
  // A time that is so far away was written before the clock was set back.
  const isDue = (time: number | null) => time === null || time <= at || time > at + 2 * LONGEST_ASKED_MS;
  return isDue(probeAt) && isDue(probingUntil) && (isRepeat || isDue(heldUntil));
}

export function beginProbe(circuit: OpenCircuit, at: number, forMs: number): OpenCircuit {
  return { ...circuit, probingUntil: Math.ceil(at + Math.min(forMs, LONGEST_ASKED_MS)) };
}

/** The probe was not sent, or its answer was not waited for: the next request takes its place. */
export function endProbe(circuit: Circuit): Circuit {
  return circuit.phase === 'open' ? { ...circuit, probingUntil: null } : circuit;
}

/** Requests a second to a host that is recovering; infinity if it is called at full speed. */
export function rampRate(circuit: Circuit, at: number): number {
  if (circuit.phase === 'open' || circuit.rampSince === null) return Number.POSITIVE_INFINITY;
  const sinceMs = at - circuit.rampSince;
  return isBack(sinceMs) ? Number.POSITIVE_INFINITY : circuit.rampPerSecond * 2 ** Math.floor(sinceMs / 1000);
}

/** A host that went through its slow start is as any other. */
function settledAt(circuit: Circuit, at: number): Circuit {
  if (circuit.phase === 'open' || circuit.rampSince === null || !isBack(at - circuit.rampSince)) return circuit;
  return { ...CLOSED, failures: circuit.failures };
}

/** A clock that was set back must not keep a host slow. */
function isBack(sinceMs: number): boolean {
  return sinceMs < 0 || sinceMs >= RAMP_MS;
}

/**
 * The state as shown to people. `recovering`: the host is back and called slowly; `failing`: it is called, but the last
 * request failed, for any reason.
 */
export const CIRCUIT_STATES = ['closed', 'open', 'probing', 'recovering', 'failing'] as const;
export type CircuitState = (typeof CIRCUIT_STATES)[number];

export function stateOf(circuit: Circuit, { now, isFailing }: { now: number; isFailing: boolean }): CircuitState {
  if (circuit.phase === 'open') return (circuit.probingUntil ?? 0) > now ? 'probing' : 'open';
  if (Number.isFinite(rampRate(circuit, now))) return 'recovering';
  return isFailing ? 'failing' : 'closed';
}

const FORGOTTEN_AFTER_MS = HOUR_MS;

/**
 * Nothing waits for the host and nothing has called it for long, so its old state says nothing about its current one.
 */
export function isForgotten(circuit: OpenCircuit, now: number): boolean {
  return mayProbe(circuit, now) && Math.abs(now - circuit.probeAt) > FORGOTTEN_AFTER_MS;
}

/** A receiver that limits its callers asks for a second now and then: only what lasts is worth a person's look. */
const NOTABLE_MS = MINUTE_MS;

/** Whether people are told that the host is not called. */
export function isNotable(circuit: Circuit): boolean {
  if (circuit.phase === 'closed') return false;
  return circuit.why === 'failed' || circuit.probeAt - circuit.since >= NOTABLE_MS;
}

/** Why steps wait for a host, in words for the one who looks at one of them. */
export function circuitText(origin: string, { why, failures, lastError, since }: OpenCircuit): string {
  const at = new Date(since).toISOString().replace(/\.\d+Z$/, 'Z');
  if (why === 'asked') return `the host ${origin} asked at ${at} for a pause (${lastError})`;
  return `the circuit of ${origin} has been open since ${at}: ${failures} requests in a row failed (${lastError})`;
}
