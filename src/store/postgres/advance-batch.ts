import type { StepStatus } from '../../model/manifest.ts';
import { leasedStep, ownerOf, parseRuntimeKey } from '../../model/runtime-keys.ts';
import { type Count, countRunEnd } from '../decisions/counts.ts';
import { type Answers, asking, decide } from '../decisions/decision.ts';
import { advance } from '../decisions/follow.ts';
import type { RunnableRevision } from '../decisions/revisions.ts';
import { revisionOf } from '../decisions/revisions.ts';
import type { FoundRun, RunReads, RunWrites } from '../decisions/rows.ts';
import { NEWEST_REVISION } from '../decisions/run-rows.ts';
import { toJson } from '../json-columns.ts';
import type { Advance, BirthLease, StepOutcome } from '../store.ts';
import { uuidOf } from '../uuids.ts';
import { givenForm } from './arrays.ts';
import { partsOf } from './counters.ts';
import { KINDS, KINDS_IN_ORDER, type Kind } from './outcome-rows.ts';
import { type Part, type Row, type Sql, sendTogether } from './sql.ts';

export interface AdvanceCall {
  readonly outcome: StepOutcome;
  readonly lease?: BirthLease | undefined;
}

/** The answer to one call; without an advance if its lease is lost. */
export interface AdvanceAnswer {
  readonly advance: Advance | undefined;
}

/** Runs of more steps are advanced alone, so that a batch never reads thousands of rows for one of its calls. */
const MOST_STEPS = 100;
/** How much one batch writes; later outcomes are advanced alone. */
const MOST_CHARACTERS = 4_000_000;

/** Whether an outcome may share a transaction: it is not of a loop, and begins no loop, no wait and no other run. */
export function isPlain({ runId, stepKey, result }: StepOutcome): boolean {
  if (result.kind === 'waiting' || result.kind === 'loop' || result.kind === 'runFlow') return false;
  return uuidOf(runId) !== null && parseRuntimeKey(stepKey).iteration === null;
}

/**
 * Stores plain outcomes in two round trips, whatever their number. Reads in advance the data that plain outcomes need,
 * then decides them one by one. Yields undefined, and stores nothing, for an outcome that reads or writes more.
 */
export async function advanceAll(
  sql: Sql,
  calls: readonly AdvanceCall[],
): Promise<readonly (AdvanceAnswer | undefined)[]> {
  const runs = await readRuns(sql, calls);
  const writes = new Writes(runs, sql.port.count);
  const rows = { ...asking<RunReads>(readsOf(runs)), ...writes.members };
  const answers = calls.map(({ outcome, lease }): AdvanceAnswer | undefined => {
    const run = runs.get(outcome.runId);
    if (run === undefined) return { advance: undefined };
    if (run.isLeft || writes.characters > MOST_CHARACTERS) return undefined;
    const { done, value } = advance(rows, outcome, lease).next();
    if (done === true && writes.keep()) return { advance: value };
    writes.drop();
    // The run here already has the writes of this outcome: it must not decide another one.
    run.isLeft = true;
    return undefined;
  });
  writes.send(sql);
  return answers;
}

/** A run and its steps, as the transaction has left them so far. */
interface KnownRun extends FoundRun {
  status: FoundRun['status'];
  readonly pinned: RunnableRevision | undefined;
  readonly states: Map<string, StepStatus>;
  /** The numbers of the written attempts of steps whose leases are held, by step key. */
  readonly held: Map<string, { readonly holder: string; readonly attempt: number }>;
  /** Whether its outcomes are left to be advanced alone. */
  isLeft: boolean;
}

type KnownRuns = ReadonlyMap<string, KnownRun>;

// Locks in the same order as everywhere: runs before steps, each by key.
const LOCK_RUNS = `
  SELECT id, status, flow_id AS "flowId", revision, trigger_type AS "triggerType", started_at AS "startedAt", timeout_at AS "timeoutAt",
    cancel_requested_at AS "cancelRequestedAt", timed_out_at AS "timedOutAt", ${NEWEST_REVISION}
  FROM sluice.runs AS r WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE`;

const LOCK_HELD = `
  SELECT s.run_id AS "runId", s.step_key AS "stepKey", s.attempt_count AS attempt, s.lease_token AS holder
  FROM unnest($1::uuid[], $2::text[], $3::text[]) AS given (run_id, step_key, holder)
  JOIN sluice.steps s ON s.run_id = given.run_id AND s.step_key = given.step_key AND s.lease_token = given.holder
  ORDER BY s.run_id, s.step_key FOR UPDATE OF s`;

const LIST_STATES = `
  SELECT given.run_id AS "runId", s.step_key AS "stepKey", s.status
  FROM unnest($1::uuid[]) AS given (run_id) CROSS JOIN LATERAL (
    SELECT step_key, status FROM sluice.steps WHERE run_id = given.run_id ORDER BY step_key LIMIT ${MOST_STEPS + 1}
  ) s`;

/** Locks the rows that the outcomes may change and reads the ones that they may need. */
async function readRuns(sql: Sql, calls: readonly AdvanceCall[]): Promise<KnownRuns> {
  const outcomes = calls.map(({ outcome }) => outcome);
  const runIds = [...new Set(outcomes.map(({ runId }) => runId))].sort();
  const addresses = [outcomes.map(({ runId }) => runId), outcomes.map(({ stepKey }) => stepKey)];
  // Statements of one round trip instead of a join: each sees the writes that earlier ones waited for.
  const [found, held, states] = await Promise.all([
    sql.all<FoundRun & { id: string }>(LOCK_RUNS, [runIds]),
    sql.all<{ runId: string; stepKey: string; attempt: number; holder: string }>(LOCK_HELD, [
      ...addresses,
      outcomes.map(({ token }) => leasedStep(token).holder),
    ]),
    sql.all<{ runId: string; stepKey: string; status: StepStatus }>(LIST_STATES, [runIds]),
  ]);
  const runs = new Map<string, KnownRun>();
  for (const { id, ...run } of found) {
    // Without a revision the outcome itself fails.
    const pinned = await decide(revisionOf(sql.port, run.flowId, run.revision)).catch(() => undefined);
    runs.set(id, { ...run, pinned, states: new Map(), held: new Map(), isLeft: false });
  }
  for (const { runId, stepKey, status } of states) {
    const run = runs.get(runId);
    if (run === undefined) continue;
    run.states.set(stepKey, status);
    run.isLeft = run.states.size > MOST_STEPS;
  }
  for (const { runId, stepKey, ...lease } of held) runs.get(runId)?.held.set(stepKey, lease);
  return runs;
}

/** Never answers: an outcome that asks for this is not plain. */
const unknown = () => new Promise<never>(() => {});

function readsOf(runs: KnownRuns): Answers<RunReads> {
  const pinned = new Map([...runs.values()].map((run) => [`${run.flowId}:${run.revision}`, run.pinned]));
  return {
    findHeld({ runId, stepKey, token }) {
      const run = runs.get(runId);
      const held = run?.held.get(stepKey);
      const { holder } = leasedStep(token);
      return run === undefined || held?.holder !== holder ? undefined : { attempt: held.attempt, run };
    },
    revisionOf: (flowId, revision) => pinned.get(`${flowId}:${revision}`) ?? unknown(),
    graphOf: (flowId, revision) => pinned.get(`${flowId}:${revision}`)?.graph ?? unknown(),
    statesIn: (runId) => runs.get(runId)?.states ?? unknown(),
    statesOf: unknown,
    hasOpenStep: unknown,
    findRun: unknown,
    findStep: unknown,
    findWait: unknown,
    findItem: unknown,
    hasLease: unknown,
    listOverdueRuns: unknown,
    findSignal: unknown,
    takeSignal: unknown,
    awaitKey: unknown,
    hasSignal: unknown,
    findWaiting: unknown,
    findAttemptStart: unknown,
    findOrigin: unknown,
    findFlow: unknown,
    newId: unknown,
    reopenRun: unknown,
    findNewest: unknown,
    port: unknown,
  };
}

/** Collects the writes of outcomes, for one statement, and changes the runs here in the same way. */
class Writes {
  /** Length of the kept rows. */
  characters = 0;
  readonly #runs: KnownRuns;
  readonly #count: Count;
  readonly #kept = new Map<Kind, Row[]>();
  #own: { readonly kind: Kind; readonly row: Row }[] = [];
  /** The trace of the step that ends next. */
  #trace: Row = NO_TRACE;
  #isPlain = true;

  constructor(runs: KnownRuns, count: Count) {
    this.#runs = runs;
    this.#count = count;
  }

  /** Keeps the writes of one outcome; false if it wrote more than this class knows. */
  keep(): boolean {
    if (!this.#isPlain) return false;
    for (const { kind, row } of this.#own) {
      const rows = this.#kept.get(kind) ?? [];
      rows.push(row);
      this.#kept.set(kind, rows);
      for (const value of Object.values(row)) if (typeof value === 'string') this.characters += value.length;
      const run = kind === 'runEnded' ? this.#runs.get(String(row.run_id)) : undefined;
      if (run !== undefined) countRunEnd(this.#count, { ...run, completedAt: Number(row.completed_at) });
    }
    this.drop();
    return true;
  }

  /** Forgets the writes of one outcome. */
  drop(): void {
    this.#own = [];
    this.#trace = NO_TRACE;
    this.#isPlain = true;
  }

  send(sql: Sql): void {
    const table = givenForm(this.#kept.values());
    // In a fixed order, so that there are few texts.
    const parts = KINDS_IN_ORDER.flatMap((kind): Part[] => {
      const rows = this.#kept.get(kind);
      if (rows === undefined) return [];
      const { types, parts } = KINDS[kind];
      let given: string | undefined;
      return parts.map((part) => (bind) => {
        given ??= table(types, rows, bind);
        return part(given);
      });
    });
    sendTogether(sql, [...parts, ...partsOf(sql.counts, sql.slot)]);
  }

  #add(kind: Kind, row: Row): void {
    this.#own.push({ kind, row });
  }

  #reach(runId: string, stepKey: string, status: StepStatus): void {
    const run = this.#runs.get(runId);
    run?.states.set(stepKey, status);
    run?.held.delete(stepKey);
  }

  readonly #isMore = () => {
    this.#isPlain = false;
  };

  readonly members: RunWrites = {
    keepTrace: (_step, trace) => {
      this.#trace = { is_traced: true, evaluation_trace: toJson(trace) };
    },
    endAttempt: ({ runId, stepKey, written, dueAt, startedAt, status, at, retryAt, uncounted, needsRow, ...ended }) => {
      const values = { input: toJson(ended.input), output: toJson(ended.output), error: toJson(ended.error) };
      const record = { ...values, inputs_revision: ended.inputsRevision };
      const isOver = retryAt === null;
      const step = {
        run_id: runId,
        step_key: stepKey,
        status: isOver ? status : 'Pending',
        retry_at: retryAt,
        uncounted,
      };
      const attempt = { attempt_status: status, due_at: dueAt, started_at: startedAt, completed_at: at };
      const row = { ...step, ...attempt, ...record, ...this.#trace };
      if (written > 0) this.#add('ended', { ...row, attempt: written });
      else this.#add(needsRow ? 'notedFirst' : 'endedFirst', { ...row, attempt: 1 });
      this.#reach(runId, stepKey, isOver ? status : 'Pending');
    },
    skipStep: ({ runId, stepKey, reason, at }, attempt) => {
      const address = { run_id: runId, step_key: stepKey, attempt };
      this.#add('skipped', { ...address, skip_reason: reason, completed_at: at, ...this.#trace });
      this.#reach(runId, stepKey, 'Skipped');
    },
    insertNext: ({ runId, flowId, stepKey, stepType, status, dueAt, holder, startedAt }) => {
      const lease = { lease_token: holder, lease_owner: holder && ownerOf(holder), started_at: startedAt };
      const step = { run_id: runId, flow_id: flowId, step_key: stepKey, step_type: stepType, status, due_at: dueAt };
      this.#add('inserted', { ...step, ...lease });
      this.#reach(runId, stepKey, status);
    },
    insertSkipped: ({ runId, stepKey, stepType, reason, at }) => {
      const step = { run_id: runId, flow_id: '', step_key: stepKey, step_type: stepType ?? '', status: 'Skipped' };
      this.#add('inserted', { ...step, skip_reason: reason, completed_at: at });
      this.#reach(runId, stepKey, 'Skipped');
    },
    endRun: ({ runId }, status, at) => {
      this.#add('runEnded', { run_id: runId, status, completed_at: at });
      const run = this.#runs.get(runId);
      if (run !== undefined) run.status = status;
    },
    beginAttempt: this.#isMore,
    keepWait: this.#isMore,
    markCancelled: this.#isMore,
    markTimedOut: this.#isMore,
    closeSteps: this.#isMore,
    retryStep: this.#isMore,
    forgetSkipped: this.#isMore,
    insertRun: this.#isMore,
    insertSignal: this.#isMore,
    wakeStep: this.#isMore,
    interruptAttempt: this.#isMore,
    leaseStep: this.#isMore,
    insertAttempt: this.#isMore,
    setDeadline: this.#isMore,
    makeDue: this.#isMore,
  };
}

const NO_TRACE: Row = { is_traced: false };
