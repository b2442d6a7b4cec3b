import { mapStrings } from '../../expressions/json-path.ts';
import { MASK } from '../../manifest/mask.ts';
import { isExactNumber, isJsonArray, isJsonObject, isSame, type Json, own } from '../../model/json.ts';
import { RUN_FLOW } from '../../model/manifest.ts';
import { parseRuntimeKey } from '../../model/runtime-keys.ts';
import type { RunDetail, StepView, Store } from '../../store/store.ts';
import { runsStore } from '../runs/store.ts';
import type { Answer, Call } from './calls.ts';
import type { SimulatedStart } from './simulator.ts';

/** The record of a run and of the runs that it started, by the step paths of a simulation. */
export interface RecordedRun {
  readonly run: RunDetail;
  /** How each ended step ended. */
  readonly ends: ReadonlyMap<string, RecordedEnd>;
  /** All steps ended by themselves; none was cut short by something outside of the flow. */
  readonly isWhole: boolean;
  readonly signals: NonNullable<SimulatedStart['signals']>;
  /** Steps that wait for a signal. */
  readonly awaiting: ReadonlySet<string>;
  /** The answer that the run got to this call, if it made it. */
  answer(call: Call): Answer | undefined;
}

interface RecordedEnd {
  readonly status: StepView['status'];
  /** Code of the error; null without an error. */
  readonly code: string | null;
}

/** Longer runs are not rehearsed: their values would fill the memory. */
const MAX_STEPS = 500;
const MAX_RUNS = 50;
const LIMITS = { valueBytes: 1_048_576, answerBytes: 4_194_304 };

type RecordedStore = Pick<Store, 'findRun' | 'pageSteps' | 'of'>;

/**
 * Yields a reason if the run cannot be rehearsed. `isInForce` says whether a revision of a flow is the deployed one,
 * which would repeat the calls of its runs.
 */
export async function readRecorded(
  runId: string,
  store: RecordedStore,
  isInForce: (run: Pick<RunDetail, 'flowId' | 'revision'>) => boolean,
): Promise<RecordedRun | string> {
  const run = await store.findRun(runId);
  if (run === undefined) return 'its run was removed';
  if (run.deliveries !== null && run.deliveries > 1) return 'its run has several deliveries';
  const places: Place[] = [{ runId, prefix: '' }];
  if (run.status !== 'Running' && run.status !== 'Succeeded') {
    const lineage = await store.of(runsStore).findLineage(runId);
    const told = lineage?.derived.find(({ triggerType }) => triggerType === 'failure');
    if (told !== undefined) places.push({ runId: told.id, prefix: '(onFailure)/' });
  }
  const steps: RecordedStep[] = [];
  for (const { runId: id, prefix } of places) {
    const own = id === runId ? run : await store.findRun(id);
    const revision = own !== undefined && isInForce(own) ? own.revision : undefined;
    const page = await store.pageSteps({ runId: id, planned: [], skip: 0, take: MAX_STEPS, limits: LIMITS });
    const left = MAX_STEPS - steps.length;
    if ((page?.total ?? 0) > left || places.length > MAX_RUNS) return `its run has more than ${MAX_STEPS} steps`;
    for (const step of page?.items ?? []) {
      if (step.runId === undefined) continue;
      const path = `${prefix}${step.stepKey}`;
      steps.push({ path, step, revision });
      if (step.stepType === RUN_FLOW) places.push(...subRunsOf(path, step));
    }
  }
  return { run, ...readSteps(steps, places) };
}

interface Place {
  readonly runId: string;
  readonly prefix: string;
}

interface RecordedStep {
  readonly path: string;
  readonly step: StepView;
  /** Revision of the step's run, if it is in force. */
  readonly revision: number | undefined;
}

function subRunsOf(path: string, { attempts, output }: StepView): Place[] {
  const outputs = [...attempts.map((attempt) => attempt.output), output];
  const ids = outputs.flatMap((each) => (isJsonObject(each) ? (own(each, 'runId') ?? []) : []));
  return [...new Set(ids)].flatMap((id, index) =>
    typeof id === 'string' ? [{ runId: id, prefix: index === 0 ? `${path}/` : `${path}#${index + 1}/` }] : [],
  );
}

/** Errors of attempts that say nothing about the calls that the attempts made. */
export const SAYS_NOTHING: ReadonlySet<string | undefined> = new Set([
  'cancelled',
  'internal_error',
  'interrupted',
  'interrupted_too_often',
  'run_timed_out',
  'secret_unavailable',
]);

const WAIT = 'WaitForSignal';

interface RecordedCall {
  /** Undefined if the deployed revision certainly makes the same call. */
  readonly input: Json | undefined;
  readonly answer: Answer;
}

function readSteps(steps: readonly RecordedStep[], places: readonly Place[]): Omit<RecordedRun, 'run'> {
  const ends = new Map<string, RecordedEnd>();
  const calls = new Map<string, readonly (RecordedCall | undefined)[]>();
  for (const recorded of steps) {
    const { path, step } = recorded;
    const { status, error } = step;
    const hasEnded = status !== 'Pending' && status !== 'Running';
    if (hasEnded && !SAYS_NOTHING.has(error?.code)) ends.set(path, { status, code: error?.code ?? null });
    calls.set(path, callsOf(recorded, places));
  }
  const signals = steps
    .filter(({ step }) => step.stepType === WAIT && step.status === 'Succeeded')
    .sort((one, other) => (one.step.completedAt ?? 0) - (other.step.completedAt ?? 0))
    .flatMap(({ path, step: { stepKey, input, output } }) => {
      const named = isJsonObject(input) ? own(input, 'signalName') : null;
      const name = named === undefined ? parseRuntimeKey(stepKey).localKey : named;
      return typeof name === 'string' ? [[name, output, path] as const] : [];
    });
  const awaiting = steps.filter(({ path, step }) => step.stepType === WAIT && !ends.has(path));
  return {
    ends,
    awaiting: new Set(awaiting.map(({ path }) => path)),
    isWhole: steps.every(({ path }) => ends.has(path)),
    signals,
    answer({ path, attempt, input }) {
      const call = calls.get(path)?.[attempt - 1];
      const isSameCall = call?.input === undefined || fits(call.input, input);
      return isSameCall ? call?.answer : undefined;
    },
  };
}

/** By attempt, without attempts cut short from outside; undefined if a value is incomplete. */
function callsOf(
  { step: { attempts, output, status }, revision }: RecordedStep,
  places: readonly Place[],
): (RecordedCall | undefined)[] {
  const told = attempts.filter(({ status: how, error }) => {
    return (how === 'Succeeded' || how === 'Failed') && !SAYS_NOTHING.has(error?.code);
  });
  return told.map(({ truncated, error, ...attempt }, index) => {
    if (truncated === true) return undefined;
    const isLast = index === told.length - 1 && status !== 'Pending' && status !== 'Running';
    const left = isLast ? output : attempt.output;
    const isOfRevision = revision !== undefined && attempt.inputsRevision === revision;
    const input = isOfRevision ? undefined : named(attempt.input, places);
    if (error === null) return { input, answer: { output: left } };
    const { code, message, retryable } = error;
    return { input, answer: { error: { code, message, retryable }, ...(left !== null && { output: left }) } };
  });
}

/** Names runs as a simulation does. */
function named(value: Json, places: readonly Place[]): Json {
  const names = places.map(({ runId, prefix }) => [runId, `[${`run ${prefix.slice(0, -1)}`.trim()}]`] as const);
  return mapStrings(value, (text) => names.reduce((renamed, [id, name]) => renamed.replaceAll(id, name), text));
}

/** Whether a recorded value, in which secrets are masked, could be this value. */
export function fits(recorded: Json, value: Json | undefined): boolean {
  if (value === undefined) return false;
  if (typeof recorded === 'string') return typeof value === 'string' && fitsText(recorded, value);
  if (isExactNumber(recorded)) return isSame(recorded, value);
  if (isJsonArray(recorded)) {
    return (
      isJsonArray(value) && recorded.length === value.length && recorded.every((item, at) => fits(item, value[at]))
    );
  }
  if (isJsonObject(recorded)) {
    if (!isJsonObject(value)) return false;
    const keys = Object.keys(recorded);
    return (
      keys.length === Object.keys(value).length &&
      keys.every((key) => fits(own(recorded, key) ?? null, own(value, key)))
    );
  }
  return recorded === value;
}

/** A mask matches any text. */
function fitsText(recorded: string, text: string): boolean {
  if (!recorded.includes(MASK)) return recorded === text;
  const [first = '', ...others] = recorded.split(MASK);
  const last = others.pop() ?? '';
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of others) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
