import type { Logger } from 'pino';
import { StoreUnavailableError } from '../errors.ts';
import type { Root } from '../expressions/context.ts';
import { maskSecrets } from '../manifest/mask-secrets.ts';
import type { SecretReader } from '../manifest/read-secret.ts';
import type { Clock } from '../model/clock.ts';
import type { Json } from '../model/json.ts';
import type { StepDefinition } from '../model/manifest.ts';
import type { StepError } from '../model/run.ts';
import type { Claim, RunInput, StepResult, Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import { hasConditions, type Judgement, judgeConditions } from './conditions.ts';
import { expressionContext } from './expression-context.ts';
import type { HandlerResult, StepHandler } from './handlers/handler.ts';
import type { HandlerTable } from './handlers/index.ts';
import { nextAttemptAt } from './retry.ts';
import { runHandler } from './run-handler.ts';
import { StepFailure } from './step-failure.ts';
import { type ResolvedInputs, resolveInputs } from './step-inputs.ts';

/** How one attempt ended, as it is recorded: secrets masked. */
export interface RanStep {
  readonly input: Json;
  /** Absent where the step has no condition, or passed its conditions at an earlier attempt. */
  readonly evaluationTrace?: Json;
  readonly result: StepResult;
}

/**
 * Judges the conditions of a claimed step, then tries it once. Yields undefined where the signal aborts first; rejects
 * with `StoreUnavailableError` where the store cannot be read, which is no fault of the step. Whatever else happens is
 * the step's result. `started` is called unless a condition skips the step.
 */
export type RunStep = (claim: Claim, signal: AbortSignal, started?: () => void) => Promise<RanStep | undefined>;

export interface RunStepServices {
  readonly store: Pick<Store, 'readRunInput'>;
  readonly catalog: Pick<Catalog, 'graph' | 'inputsOf'>;
  readonly handlers: HandlerTable;
  readonly readSecret: SecretReader;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

interface PreparedStep {
  readonly handler: StepHandler;
  readonly resolved: ResolvedInputs;
}

/** A step that took its process down this often would take the next one down too. */
const MAX_INTERRUPTIONS = 5;
/** A message is for people; an error may hold a whole document. */
const MAX_MESSAGE_CHARACTERS = 4_000;
const ALL_ROOTS: ReadonlySet<Root> = new Set(['trigger', 'steps', 'loop']);

export function createRunStep(services: RunStepServices): RunStep {
  return async (claim, signal, started) => {
    const readRunInput = runInputReader(claim, services.store);
    let judgement: Judgement | undefined;
    let prepared: PreparedStep | undefined;
    let ended: HandlerResult | undefined;
    try {
      const step = await definitionOf(claim, services);
      judgement = await judge(step, claim, readRunInput);
      if (judgement?.kind === 'skip') {
        const { reason, trace } = judgement;
        return { input: null, evaluationTrace: trace, result: { kind: 'skipped', reason } };
      }
      started?.();
      if (judgement?.kind === 'failed') throw new StepFailure('when_failed', judgement.message);
      prepared = await prepare(claim, readRunInput, services);
      ended = await runHandler({ ...prepared, step, claim, signal, readRunInput, logger: services.logger });
    } catch (error) {
      if (error instanceof StoreUnavailableError) throw error;
      ended = failed(error);
    }
    if (ended === undefined) return undefined;
    const { value, secrets } = prepared?.resolved ?? { value: null, secrets: [] };
    const mask = (recorded: Json) => (secrets.length === 0 ? recorded : maskSecrets(recorded, secrets));
    const result = await toStepResult(ended, { claim, mask, services });
    return { input: mask(value), ...(judgement === undefined ? {} : { evaluationTrace: judgement.trace }), result };
  };
}

/** Type, conditions, retry and time limit come from the revision that the run is pinned to. */
async function definitionOf(
  { flowId, revision, stepKey }: Claim,
  { catalog }: RunStepServices,
): Promise<StepDefinition> {
  const step = (await catalog.graph(flowId, revision))[stepKey];
  if (step === undefined) throw new Error(`revision ${revision} of the flow ${flowId} has no step "${stepKey}"`);
  return step;
}

/** A step that was tried before has passed its conditions: they say whether it starts, not whether it goes on. */
async function judge(
  step: StepDefinition,
  { attempt, interruptions }: Claim,
  readRunInput: () => Promise<RunInput>,
): Promise<Judgement | undefined> {
  if (attempt - interruptions > 1 || !hasConditions(step)) return undefined;
  return judgeConditions(step, expressionContext(await readRunInput(), ALL_ROOTS));
}

/** The inputs come from the newest revision. */
async function prepare(
  claim: Claim,
  readRunInput: () => Promise<RunInput>,
  { catalog, handlers, readSecret }: RunStepServices,
): Promise<PreparedStep> {
  const { flowId, revision, stepKey, stepType } = claim;
  if (claim.interruptions >= MAX_INTERRUPTIONS) {
    throw new StepFailure(
      'interrupted_too_often',
      `the process stopped ${claim.interruptions} times while it ran this step; it is not tried again`,
    );
  }
  const handler = handlers.get(stepType);
  if (handler === undefined) {
    throw new StepFailure(
      'unknown_handler',
      `no handler serves the step type "${stepType}"; there are ${[...handlers.keys()].join(', ')}`,
    );
  }
  const written = await catalog.inputsOf(flowId, stepKey, revision);
  return { handler, resolved: await resolveInputs({ written, handler, readSecret, readRunInput }) };
}

/** Reads what started the run and what its steps left, at most once an attempt. */
function runInputReader({ runId }: Claim, store: Pick<Store, 'readRunInput'>): () => Promise<RunInput> {
  let reading: Promise<RunInput> | undefined;
  const read = async () => {
    const found = await store.readRunInput(runId);
    if (found === undefined) throw new Error(`the run ${runId} is not in the store`);
    return found;
  };
  return () => {
    reading ??= read();
    return reading;
  };
}

function failed(error: unknown): HandlerResult {
  const message = error instanceof Error ? error.message : 'something that is no Error was thrown';
  if (error instanceof StepFailure) return { kind: 'failed', code: error.code, message, retryable: error.retryable };
  return { kind: 'failed', code: 'internal_error', message, retryable: false };
}

async function toStepResult(
  ended: HandlerResult,
  { claim, mask, services }: { claim: Claim; mask: (value: Json) => Json; services: RunStepServices },
): Promise<StepResult> {
  if (ended.kind === 'succeeded') return { kind: 'succeeded', output: mask(ended.output) };
  const { code, retryable, retryAfterMs } = ended;
  // Masked before it is cut: of a secret that was cut in two neither part would be found.
  const message = String(mask(ended.message)).slice(0, MAX_MESSAGE_CHARACTERS);
  const error: StepError = { code, message, retryable };
  const output = ended.output === undefined ? {} : { output: mask(ended.output) };
  const dueAt = retryable ? await retryAt(claim, retryAfterMs, services) : undefined;
  return dueAt === undefined ? { kind: 'failed', error, ...output } : { kind: 'retry', error, ...output, dueAt };
}

async function retryAt(
  claim: Claim,
  retryAfterMs: number | undefined,
  { catalog, clock, random }: RunStepServices,
): Promise<number | undefined> {
  const policy = (await catalog.graph(claim.flowId, claim.revision))[claim.stepKey]?.retry;
  // An interrupted attempt said nothing about the step, so it counts for nothing.
  const attempt = claim.attempt - claim.interruptions;
  return nextAttemptAt(policy, { attempt, at: clock.now(), retryAfterMs }, random);
}
