import { type Span, SpanStatusCode } from '@opentelemetry/api';
import type { Logger } from 'pino';
import { StoreUnavailableError } from '../errors.ts';
import type { Clock } from '../model/clock.ts';
import { STOP_ERRORS } from '../model/run.ts';
import { tokenOf } from '../model/runtime-keys.ts';
import type { Advance, BirthLease, Claim, StartedRun, StepResult, Store } from '../store/store.ts';
import { inSpan } from '../telemetry/tracing.ts';
import { LEASE_MS, type Lease, pause, stopOf } from './leases.ts';
import type { Report } from './report.ts';
import type { RanStep, RunStep, RunWatch } from './run-step.ts';
import { backoffMs } from './step-failure.ts';

/** The consequences of an attempt. */
export interface Followed {
  /** When to claim a step that it made due, 0 for now; infinity if it made none due. */
  readonly nextDueAt: number;
  /** End of the time limit of a step that waits now, or of a run that can run now; infinity if there is none. */
  readonly limitAt: number;
  /** Steps that it made due and that are leased already. */
  readonly claims: readonly Claim[];
  /** Runs that it started: by the failure of its own run, or by a step that runs a flow. */
  readonly startedRuns: readonly StartedRun[];
}

/** Called when a step has run and its outcome is about to be stored. */
type OnRan = (result: StepResult) => Following;

/** What happens after a step has run. */
interface Following {
  /** For the steps that its outcome makes due. */
  readonly lease?: BirthLease | undefined;
  /** Nothing follows. */
  readonly isLast?: boolean;
}

export interface AttemptServices {
  readonly store: Pick<Store, 'advance' | 'noteInput' | 'ping' | 'returnLeases'>;
  /** The step types of this process, and whether another process has a type. */
  readonly types?: { has(stepType: string): boolean; isElsewhere(stepType: string): Promise<boolean> } | undefined;
  readonly runStep: RunStep;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly report: Report;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

/** When a step is due again that only other processes can run. */
const ELSEWHERE_MS = 5000;

const STORE_BACKOFF = { backoffSeconds: 0.1, factor: 2, maxBackoffSeconds: 5, jitter: true };

/**
 * Makes the function that takes a claimed step through its attempt and stores the outcome. It never rejects; it yields
 * undefined if the outcome was given up, because the lease was lost, the process stops, or the store refuses it. Then
 * the step runs again after its lease has run out.
 */
export function createAttempt(
  services: AttemptServices,
): (lease: Lease, onRan?: OnRan) => Promise<Followed | undefined> {
  const { report, logger } = services;
  return async (lease, onRan = () => ({})) => {
    report.stepTaken(lease.claim);
    try {
      return await runAndStore(lease, onRan, services);
    } catch (error) {
      const { runId, stepKey } = lease.claim;
      logger.error(
        { err: error, runId, stepKey },
        'the outcome of a step could not be stored; the step will run again',
      );
      return undefined;
    } finally {
      report.stepLeft();
    }
  };
}

async function runAndStore(lease: Lease, onRan: OnRan, services: AttemptServices): Promise<Followed | undefined> {
  const { store, clock, report } = services;
  const { claim } = lease;
  if (isForeign(claim, services) && claim.stop === null && (await leftToOthers(lease, services)))
    return NOTHING_FOLLOWS;
  const startedAt = clock.monotonic();
  let isStarted = false;
  // An outage of the store can take a step to its start more than once.
  const started = () => {
    if (!isStarted) report.stepStarted(claim);
    isStarted = true;
  };
  let noting: ReturnType<typeof createNoting> | undefined;
  const prepared: RunWatch['prepared'] = (known) => {
    noting ??= createNoting(claim, services);
    noting.expect(known);
  };
  const run = () => services.runStep(claim, lease, { started, prepared });
  let tried: RanStep | undefined;
  try {
    if (claim.stop === null) tried = await withStore(lease, services, () => traced(claim, run));
  } finally {
    if (noting !== undefined) await noting.stop();
  }
  const ran = tried ?? stopped(lease);
  const durationMs = clock.monotonic() - startedAt;
  const { lease: next, isLast } = onRan(ran.result);
  const { token, runId, stepKey, dueAt, attemptStartedAt } = claim;
  const outcome = {
    token,
    runId,
    stepKey,
    at: clock.now(),
    dueAt,
    startedAt: attemptStartedAt,
    mayShareCommit: isLast,
    ...ran,
  };
  const advance = await withStore(lease, services, () => {
    // Counts from each try: an outage can last longer than a lease.
    return store.advance(outcome, next && { ...next, leasedUntil: clock.now() + LEASE_MS });
  });
  if (advance === undefined) throw new Error('its lease was lost');
  const result = advance.subRun?.result ?? ran.result;
  report.stepEnded({ claim, result, advance, durationMs });
  const claims = next === undefined ? [] : claimsOf(lease, advance, { next, startedAt: clock.now() });
  const failureRun = advance.failure?.kind === 'started' ? advance.failure.run : null;
  const startedRuns = [failureRun, advance.subRun?.run ?? null].filter((run) => run !== null);
  const { nextDueAt, limitAt } = followedBy(result, advance);
  const { woken, next: nextRun } = advance;
  return {
    nextDueAt: woken === undefined && nextRun === undefined ? nextDueAt : 0,
    limitAt: Math.min(limitAt, nextRun?.timeoutAt ?? NEVER),
    claims,
    startedRuns,
  };
}

/** Longer than almost all steps run, so that hardly any input is written twice, but soon enough for people who look. */
const NOTE_MS = 250;
/** Larger inputs are only written once, with the outcome. */
const MAX_NOTED_CHARACTERS = 256 * 1024;

/** Stores the input of a long-running step, so that people see what it does meanwhile. */
function createNoting({ token, runId, stepKey }: Claim, { store, logger }: AttemptServices) {
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;
  const note = async (known: Parameters<RunWatch['prepared']>[0]) => {
    try {
      const { input, inputsRevision = null } = known();
      const text = JSON.stringify(input);
      if (input !== null && text.length <= MAX_NOTED_CHARACTERS) {
        await store.noteInput({ token, input: text, inputsRevision });
      }
    } catch (error) {
      // The input is written again with the outcome, for which the step waits until the store works.
      logger.debug({ err: error, runId, stepKey }, 'the input of a running step could not be stored yet');
    }
  };
  return {
    expect(known: Parameters<RunWatch['prepared']>[0]) {
      clearTimeout(timer);
      timer = setTimeout(() => {
        writing = note(known);
      }, NOTE_MS).unref();
    },
    /** Resolves when no write is in progress. */
    stop() {
      clearTimeout(timer);
      return writing;
    },
  };
}

const NEVER = Number.POSITIVE_INFINITY;
// The step is left to the process that is woken when it is due.
const NOTHING_FOLLOWS: Followed = { nextDueAt: NEVER, limitAt: NEVER, claims: [], startedRuns: [] };

/** Whether this process lacks the type of the step. */
export function isForeign({ stepType }: Pick<Claim, 'stepType'>, { types }: Pick<AttemptServices, 'types'>): boolean {
  return types?.has(stepType) === false;
}

/** Gives back a step that other processes can run but this one cannot, for example one of an earlier release. */
async function leftToOthers(lease: Lease, services: AttemptServices): Promise<boolean> {
  const { store, clock, types } = services;
  const { token, stepType } = lease.claim;
  if (!(await withStore(lease, services, async () => types?.isElsewhere(stepType)))) return false;
  await withStore(lease, services, () => store.returnLeases({ tokens: [token], at: clock.now() + ELSEWHERE_MS }));
  return true;
}

/** The steps that were leased as they became due, as claims. */
function claimsOf(
  lease: Lease,
  { leased = [], newestRevision }: Advance,
  { next, startedAt }: { next: BirthLease; startedAt: number },
): readonly Claim[] {
  // If the run was stopped while the outcome was stored, the next steps are ended, not tried.
  const stop = stopOf(lease) ?? null;
  return leased.map((step) => firstClaim({ ...lease.claim, ...step, newestRevision, startedAt, stop }, next));
}

/** The claim of a first attempt whose lease came with the step: it could begin when that was committed. */
export function firstClaim(step: LeasedAtBirth, { holder }: BirthLease): Claim {
  const { runId, flowId, revision, newestRevision, stepKey, stepType, triggerKey, traceparent, startedAt } = step;
  const { loop, stop } = step;
  return {
    token: tokenOf(runId, stepKey, holder),
    runId,
    flowId,
    revision,
    newestRevision,
    stepKey,
    stepType,
    attempt: 1,
    interruptions: 0,
    loneDeaths: 0,
    aloneMs: null,
    triggerKey,
    traceparent,
    dueAt: startedAt,
    startedAt,
    attemptBase: 0,
    attemptStartedAt: startedAt,
    resumed: null,
    loop,
    stop,
    isUnwritten: true,
  };
}

type LeasedAtBirth = Omit<
  Claim,
  | 'token'
  | 'attempt'
  | 'interruptions'
  | 'loneDeaths'
  | 'aloneMs'
  | 'attemptBase'
  | 'attemptStartedAt'
  | 'resumed'
  | 'isUnwritten'
  | 'dueAt'
>;

function followedBy(result: StepResult, advance: Advance): Pick<Followed, 'nextDueAt' | 'limitAt'> {
  const never = Number.POSITIVE_INFINITY;
  if (result.kind === 'retry') return { nextDueAt: result.dueAt, limitAt: never };
  if (result.kind === 'waiting') {
    // A signal can arrive before the step waits for it, so only a claim shows when the step is due.
    const nextDueAt = result.signalName === null ? (result.dueAt ?? never) : 0;
    return { nextDueAt, limitAt: result.limitAt ?? never };
  }
  return { nextDueAt: advance.dispatched.length > (advance.leased?.length ?? 0) ? 0 : never, limitAt: never };
}

/** The end of a step whose run was stopped. Throws if something else aborted it. */
function stopped(lease: Lease): RanStep {
  const stop = lease.claim.stop ?? stopOf(lease);
  if (stop === undefined) throw lease.reason;
  return { input: null, result: { kind: 'failed', error: STOP_ERRORS[stop] } };
}

/**
 * Calls until the store answers. Waits out an outage for as long as this process holds the lease, unless the store is
 * gone for good. If the store works again but refuses this call for longer than a lease lasts, retrying does not help.
 * Rejects when it gives up.
 */
async function withStore<T>(lease: Lease, services: AttemptServices, call: () => Promise<T>): Promise<T> {
  const { store, clock, logger, random } = services;
  const { runId, stepKey } = lease.claim;
  let failingSince: number | undefined;
  for (let failures = 1, isRefused = false; ; failures += 1) {
    try {
      return await call();
    } catch (error) {
      if (error instanceof StoreUnavailableError && error.isForGood) throw error;
      failingSince ??= clock.monotonic();
      const waitMs = backoffMs(STORE_BACKOFF, failures, random);
      if (!lease.aborted && !isRefused) {
        logger.error({ err: error, runId, stepKey, waitMs }, 'the store failed while a step runs; trying again');
        await pause(waitMs, lease.signal);
      }
      if (lease.aborted || isRefused) throw error;
      isRefused = clock.monotonic() - failingSince >= LEASE_MS && (await answers(store));
    }
  }
}

async function answers(store: Pick<Store, 'ping'>): Promise<boolean> {
  try {
    await store.ping();
    return true;
  } catch {
    return false;
  }
}

function traced(claim: Claim, run: () => Promise<RanStep | undefined>): Promise<RanStep | undefined> {
  const attributes = {
    'flow.id': claim.flowId,
    'flow.run.id': claim.runId,
    'flow.step.key': claim.stepKey,
    'flow.step.type': claim.stepType,
    'flow.step.attempt': claim.attempt,
  };
  return inSpan({ name: 'flow.step', parent: claim.traceparent, attributes }, (span) =>
    span.isRecording() ? tellHowItEnded(span, run) : run(),
  );
}

async function tellHowItEnded(span: Span, run: () => Promise<RanStep | undefined>): Promise<RanStep | undefined> {
  const ran = await run();
  const code = ran === undefined ? 'interrupted' : errorCode(ran.result);
  if (code !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: code });
  return ran;
}

function errorCode(result: StepResult): string | undefined {
  return 'error' in result ? result.error.code : undefined;
}
