import type { Logger } from 'pino';
import { StoreUnavailableError } from '../errors.ts';
import { prepareContext } from '../expressions/compile.ts';
import { evaluateCondition } from '../expressions/condition.ts';
import type { ExpressionContext } from '../expressions/context.ts';
import { maskerOf } from '../manifest/mask.ts';
import type { SecretReader } from '../manifest/read-secret.ts';
import type { Clock } from '../model/clock.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { ManifestSource, StepDefinition } from '../model/manifest.ts';
import type { StepError } from '../model/run.ts';
import type { Claim, StepResult, Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import type { LoopStart, SubRunStart } from './delegated.ts';
import type { HandlerResult, StepCall, StepHandler } from './handlers/handler.ts';
import type { HandlerTable } from './handlers/index.ts';
import type { ServedHandler } from './handlers/outside.ts';
import type { Abortable } from './leases.ts';
import type { PreparedInputs, PreparedRevision, PreparedStep } from './prepared-revision.ts';
import { parseInputs, runHandler } from './run-handler.ts';
import { beginAnew, MissingSecretError, secretWaitIn, waitForSecret } from './secret-wait.ts';
import { expressionContext } from './step-context.ts';
import { backoffMs, nextAttemptAt, StepFailure } from './step-failure.ts';
import { createRunInputs, type ReadRunInput, type ResolvedInputs, resolveInputs } from './step-inputs.ts';
import type { WaitLinks } from './wait-links.ts';

/** The recorded end of one attempt: secrets masked. */
export interface RanStep {
  readonly input: Json;
  /** The revision of the inputs; absent if they were not read. */
  readonly inputsRevision?: number | undefined;
  /** Absent if the step has no condition, or passed its conditions at an earlier attempt. */
  readonly evaluationTrace?: Json;
  readonly result: StepResult;
}

/**
 * Evaluates the conditions of a claimed step, then tries it once. Yields undefined if its lease aborts first; rejects
 * with `StoreUnavailableError` if the store cannot be read, which is not the step's fault. Anything else is the step's
 * result. Calls `watch.started` unless a condition skips the step.
 */
export type RunStep = (claim: Claim, lease: Abortable, watch?: RunWatch) => Promise<RanStep | undefined>;

/** Receives the progress of a step. */
export interface RunWatch {
  started(): void;
  /** Called if the handler takes longer, with a function that yields the recorded form of its inputs. */
  prepared(input: () => Pick<RanStep, 'input' | 'inputsRevision'>): void;
}

interface RunStepServices {
  readonly store: Pick<Store, 'readRunInput' | 'findRun' | 'outlineSteps'>;
  readonly catalog: Pick<Catalog, 'pinned' | 'inputsOf'>;
  readonly handlers: HandlerTable;
  /** Reads a secret for a step whose manifest has this origin. */
  readonly readSecret: (reference: string, source: ManifestSource) => ReturnType<SecretReader>;
  readonly waits?: WaitLinks | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

interface Prepared {
  readonly handler: ServedHandler;
  readonly resolved: ResolvedInputs;
  /** The revision of the inputs; undefined for a loop, which has none. */
  readonly inputsRevision: number | undefined;
}

/** A step that ended its process this often, while nothing else ran, would end the next one too. */
const MAX_LONE_DEATHS = 3;

export function createRunStep(services: RunStepServices): RunStep {
  const { catalog } = services;
  const openInput = createRunInputs(services);
  return async (given, lease, watch) => {
    const { read: readRunInput, release } = openInput(given, lease);
    let step: PreparedStep | undefined;
    let condition: ConditionResult | undefined;
    let prepared: Prepared | undefined;
    let ended: Ended | undefined;
    const waited = secretWaitIn(given);
    const claim = waited === undefined ? given : { ...given, resumed: waited.resumed };
    try {
      // Before any of the step's data is read, which may be what ends the process.
      refuseDeadly(claim);
      // Without a wait if the revision is in memory, as for almost every step.
      const pinned = catalog.pinned(claim.flowId, claim.revision);
      step = stepIn(pinned instanceof Promise ? await pinned : pinned, claim);
      if (isConditional(step, given)) condition = await evaluateAtStart(step, given, readRunInput);
      if (condition?.kind === 'skip') {
        const { reason, trace } = condition;
        return { input: null, evaluationTrace: trace, result: { kind: 'skipped', reason } };
      }
      if (given.resumed === null) watch?.started();
      if (condition?.kind === 'failed') throw new StepFailure('when_failed', condition.message);
      const preparing = prepare({ claim, step, readRunInput }, services);
      prepared = preparing instanceof Promise ? await preparing : preparing;
      if (waited?.resumed === null) return { input: null, result: beginAnew(services.clock.now()) };
      const { definition, isFailureHandled } = step;
      const { handler, resolved } = prepared;
      const task = { handler, resolved, step: definition, isFailureHandled, claim, lease, readRunInput };
      const { delegated } = handler;
      const own = { step: definition, claim, resolved: resolved.value, inputs: () => parseInputs(handler, resolved) };
      const running =
        delegated === undefined
          ? runHandler(task, services)
          : delegated.run({ ...own, now: services.clock.now() }, services);
      if (running instanceof Promise) watch?.prepared(() => inputOf(prepared));
      ended = running instanceof Promise ? await running : running;
    } catch (error) {
      if (error instanceof StoreUnavailableError) throw error;
      if (lease.aborted && error === lease.reason) return undefined;
      if (error instanceof MissingSecretError) {
        const { flowId, runId, stepKey, resumed } = claim;
        const about = { flowId, runId, stepKey, why: error.message };
        if (waited === undefined) services.logger.error(about, 'a step waits for a secret that cannot be read');
        const result = waitForSecret(error, { waited, resumed, now: services.clock.now() });
        return { input: null, ...(condition && { evaluationTrace: condition.trace }), result };
      }
      ended = failureOf(error);
      if (ended.kind === 'fault') {
        const { flowId, runId, stepKey } = claim;
        services.logger.error({ err: error, flowId, runId, stepKey }, 'a fault of Sluice itself ended an attempt');
      }
    } finally {
      release();
    }
    if (ended === undefined) return undefined;
    const { value, secrets } = prepared?.resolved ?? { value: null, secrets: [] };
    const mask = maskerOf(secrets);
    const called = ended.kind === 'failed' ? calledBy(prepared, mask) : undefined;
    const result = toStepResult(ended, { claim, step: step?.definition, mask, called, services });
    const input = ended.kind === 'loop' ? ended.input : mask(value);
    return {
      input,
      inputsRevision: prepared?.inputsRevision,
      ...(condition === undefined ? {} : { evaluationTrace: condition.trace }),
      result,
    };
  };
}

/** The recorded inputs; a loop's items are known when it has begun. */
function inputOf(prepared: Prepared | undefined): Pick<RanStep, 'input' | 'inputsRevision'> {
  if (prepared === undefined || prepared.inputsRevision === undefined) return { input: null };
  const { resolved, inputsRevision } = prepared;
  return { input: maskerOf(resolved.secrets)(resolved.value), inputsRevision };
}

/** The end of a step, before it is masked and stored. */
type Ended = HandlerResult | LoopStart | SubRunStart | Fault;

function refuseDeadly({ loneDeaths }: Claim): void {
  if (loneDeaths < MAX_LONE_DEATHS) return;
  throw new StepFailure(
    'interrupted_too_often',
    `the process died ${loneDeaths} times while it ran only this step; it is not retried`,
  );
}

/** Type, conditions, retry and time limit come from the revision that the run is pinned to. */
function stepIn(pinned: PreparedRevision, { flowId, revision, stepKey }: Claim): PreparedStep {
  const step = pinned.step(stepKey);
  if (step === undefined) throw new Error(`revision ${revision} of the flow ${flowId} has no step "${stepKey}"`);
  return step;
}

/** A step with an earlier attempt has passed its conditions, which decide whether it starts, not if it continues. */
function isConditional(step: PreparedStep, claim: Claim): boolean {
  return triesOf(claim) <= 1 && claim.resumed === null && step.conditions().length > 0;
}

async function evaluateAtStart(step: PreparedStep, claim: Claim, readRunInput: ReadRunInput): Promise<ConditionResult> {
  const conditions = step.conditions();
  const references = conditions.flatMap(({ expression }) => expression.references);
  return evaluateConditions(conditions, expressionContext(await readRunInput(references), claim));
}

/** The result of all conditions of a step together. */
type ConditionResult =
  | { readonly kind: 'pass'; readonly trace: Json }
  | { readonly kind: 'skip'; readonly trace: Json; readonly reason: string }
  /** One failed or yielded no boolean: the step neither passes nor is skipped, whatever the others yield. */
  | { readonly kind: 'failed'; readonly trace: Json; readonly message: string };

/** Evaluates every condition of a step, so that its record shows all of them. Pure. */
function evaluateConditions(
  conditions: ReturnType<PreparedStep['conditions']>,
  context: ExpressionContext,
): ConditionResult {
  const trace: JsonObject[] = [];
  let failure: string | undefined;
  let refusal: string | undefined;
  const data = prepareContext(context);
  for (const { after, expression } of conditions) {
    const outcome = evaluateCondition(expression, context, data);
    const about = { after, expression: expression.source, values: outcome.trace };
    if ('error' in outcome) {
      trace.push({ ...about, error: outcome.error });
      failure ??= `runAfter.${after}.when: ${outcome.error}`;
    } else {
      trace.push({ ...about, result: outcome.result });
      if (!outcome.result) refusal ??= `the condition on "${after}" is false: ${expression.source}`;
    }
  }
  if (failure !== undefined) return { kind: 'failed', trace, message: failure };
  return refusal === undefined ? { kind: 'pass', trace } : { kind: 'skip', trace, reason: refusal };
}

/** The inputs come from the newest revision, or from the run's own if that pins them. */
function prepare(
  { claim, step, readRunInput }: Preparing,
  { catalog, handlers, readSecret, ...services }: RunStepServices,
): Prepared | Promise<Prepared> {
  const { stepType } = claim;
  const handler = handlers.get(stepType);
  if (handler === undefined) {
    throw new StepFailure(
      'unknown_handler',
      `no handler has the step type "${stepType}"; known types are ${[...handlers.keys()].join(', ')}`,
    );
  }
  const resolve = ({ inputs, source, revision: inputsRevision }: StepInputs): Prepared | Promise<Prepared> => {
    const readAllowed = (reference: string) => readSecret(reference, source);
    // Inputs of a loop or a sub-run are stored unmasked, and a link would be too.
    const waits = handler.delegated === undefined ? services.waits : undefined;
    const resolved = resolveInputs({ inputs, handler, readSecret: readAllowed, readRunInput, claim, waits });
    const made = ({ value, ...secrets }: ResolvedInputs) => {
      const given = handler.delegated?.inputsOf?.(value, step.definition) ?? value;
      return { handler, inputsRevision, resolved: { value: given, ...secrets } };
    };
    return resolved instanceof Promise ? resolved.then(made) : made(resolved);
  };
  const inputs =
    step.items === undefined
      ? catalog.inputsOf(claim)
      : // A loop itself has no secrets.
        { inputs: step.items(), source: 'api' as const, revision: undefined };
  return inputs instanceof Promise ? inputs.then(resolve) : resolve(inputs);
}

interface Preparing {
  readonly claim: Claim;
  readonly step: PreparedStep;
  readonly readRunInput: ReadRunInput;
}

/** Inputs from the catalog; those of a loop belong to no revision. */
interface StepInputs {
  readonly inputs: PreparedInputs;
  readonly source: ManifestSource;
  readonly revision: number | undefined;
}

/** A message is for people; an error can contain a whole document. */
const MAX_MESSAGE_CHARACTERS = 4_000;

interface ResultContext {
  readonly claim: Claim;
  /** Undefined if the step could not be read. */
  readonly step: StepDefinition | undefined;
  /** Masks the secrets of the step. */
  readonly mask: (value: Json) => Json;
  /** The call of the step; undefined if it called nothing. */
  readonly called: Called | undefined;
  readonly services: { readonly clock: Clock; readonly random: () => number };
}

interface Called {
  /** Origin of the host; undefined if it is a secret. */
  readonly host: string | undefined;
  /** Method and path; without the path if the URL is a secret. */
  readonly label: string;
}

const MAX_PATH_CHARACTERS = 200;

/** The call of a step, as far as the recorded input shows it. */
function calledBy(prepared: Prepared | undefined, mask: (value: Json) => Json): Called | undefined {
  if (prepared?.handler.calls === undefined) return undefined;
  const { handler, resolved } = prepared;
  const call = callOf(handler, resolved.value);
  if (call === undefined) return undefined;
  const { method, url } = call;
  const isShown = (text: string) => mask(text) === text;
  const recorded = Reflect.get(Object(mask(resolved.value)), 'url');
  const hasPath = recorded === Reflect.get(Object(resolved.value), 'url') && isShown(url.href);
  const host = isShown(url.origin) ? url.origin : undefined;
  const target = hasPath ? url.pathname.slice(0, MAX_PATH_CHARACTERS) : host === undefined ? '' : url.host;
  return { host, label: `${method} ${target}`.trim() };
}

function callOf({ inputs, calls }: StepHandler, value: Json): StepCall | undefined {
  try {
    const parsed = inputs.safeParse(value);
    return parsed.success ? calls?.(parsed.data) : undefined;
  } catch {
    // The call only explains a failure, which stays as it is.
    return undefined;
  }
}

/** A fault of Sluice itself ended the attempt: the step is tried again as if it had not been tried. */
interface Fault {
  readonly kind: 'fault';
  readonly message: string;
}

function failureOf(error: unknown): HandlerResult | Fault {
  const message = error instanceof Error ? error.message : 'the thrown value is not an Error';
  if (error instanceof StepFailure) return { kind: 'failed', code: error.code, message, retryable: error.retryable };
  return { kind: 'fault', message };
}

/** 20 faults take two hours: time to restore a file, or to start a release that has it. */
const MAX_FAULTS = 20;
const FAULT_BACKOFF = { backoffSeconds: 1, factor: 2, maxBackoffSeconds: 600, jitter: true };

function resultOfFault({ message }: Fault, context: ResultContext): StepResult {
  const { claim, services } = context;
  const faults = claim.attempt - triesOf(claim);
  const error: StepError = { code: 'internal_error', message: shown(message, context), retryable: faults < MAX_FAULTS };
  if (!error.retryable) return { kind: 'failed', error };
  const dueAt = Math.ceil(services.clock.now() + backoffMs(FAULT_BACKOFF, faults + 1, services.random));
  return { kind: 'retry', error, dueAt, isUncounted: true };
}

/** The number of this try for the step's retry policy: an interrupted attempt proves nothing about the step. */
function triesOf({ attempt, attemptBase, interruptions }: Claim): number {
  return attempt - attemptBase - interruptions;
}

/** The stored form of a handler's result: secrets masked, with the time of the next try or look. */
function toStepResult(ended: Ended, context: ResultContext): StepResult {
  const { mask } = context;
  switch (ended.kind) {
    case 'succeeded':
      return { kind: 'succeeded', output: mask(ended.output) };
    case 'loop':
      return { kind: 'loop', items: ended.items, concurrency: ended.concurrency };
    case 'runFlow':
      return { ...ended, ...limitOf(context), retryAt: retryAt(context) ?? null };
    case 'waiting':
      return waitOf(ended, context);
    case 'failed':
      return failureResult(ended, context);
    case 'fault':
      return resultOfFault(ended, context);
  }
}

function failureResult(
  { code, message, retryable, retryAfterMs, output }: Extract<HandlerResult, { kind: 'failed' }>,
  context: ResultContext,
): StepResult {
  const { mask, called } = context;
  const about = called === undefined ? '' : ` · ${called.label}`;
  const error: StepError = {
    code,
    message: `${shown(message, context)}${about}`,
    retryable,
    ...(called?.host !== undefined && { host: called.host }),
  };
  const kept = output === undefined ? {} : { output: mask(output) };
  const dueAt = retryable ? retryAt(context, retryAfterMs) : undefined;
  return dueAt === undefined ? { kind: 'failed', error, ...kept } : { kind: 'retry', error, ...kept, dueAt };
}

/** Masked before it is cut: neither half of a divided secret would be found. */
function shown(message: string, { mask }: ResultContext): string {
  return String(mask(message)).slice(0, MAX_MESSAGE_CHARACTERS);
}

/** When a step that fails now is tried again by its policy; undefined if it is not. */
function retryAt({ claim, step, services: { clock, random } }: ResultContext, retryAfterMs?: number) {
  return nextAttemptAt(step?.retry, { attempt: triesOf(claim), at: clock.now(), retryAfterMs }, random);
}

/** End of a step's own time limit, which counts from the start of the attempt. */
function limitOf({ claim, step }: ResultContext): { readonly limitAt?: number } {
  if (step?.timeoutSeconds === undefined) return {};
  return { limitAt: Math.ceil(claim.attemptStartedAt + step.timeoutSeconds * 1000) };
}

/** A step is looked at again no later than its time limit. */
function waitOf(
  { until, signalName, signalKey, state = null }: Extract<HandlerResult, { kind: 'waiting' }>,
  context: ResultContext,
): StepResult {
  const limit = limitOf(context);
  const times = [until, limit.limitAt].filter((time) => time !== undefined);
  const dueAt = times.length === 0 ? null : Math.ceil(Math.min(...times));
  return { kind: 'waiting', state: context.mask(state), dueAt, signalName: signalName ?? null, signalKey, ...limit };
}
