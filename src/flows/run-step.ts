import type { Logger } from 'pino';
import { StoreUnavailableError } from '../errors.ts';
import { maskerOf } from '../manifest/mask-secrets.ts';
import type { SecretReader } from '../manifest/read-secret.ts';
import type { Clock } from '../model/clock.ts';
import type { Json } from '../model/json.ts';
import type { ManifestSource, StepDefinition } from '../model/manifest.ts';
import type { Claim, StepResult, Store } from '../store/store.ts';
import type { Catalog } from './catalog.ts';
import { conditionReferences, type Judgement, judgeConditions } from './conditions.ts';
import { expressionContext } from './expression-context.ts';
import { inputOfLoop, type LoopStart, loopInputs, startOfLoop } from './handlers/for-each.ts';
import type { HandlerResult, StepHandler } from './handlers/handler.ts';
import type { HandlerTable } from './handlers/index.ts';
import { runHandler } from './run-handler.ts';
import { createRunInputs, type ReadRunInput } from './run-input.ts';
import { stepAt } from './runtime-keys.ts';
import { StepFailure } from './step-failure.ts';
import { type ResolvedInputs, resolveInputs } from './step-inputs.ts';
import { failureOf, toStepResult, triesOf } from './step-result.ts';

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
  /** Reads a secret for a step of a manifest that came from there. */
  readonly readSecret: (reference: string, source: ManifestSource) => ReturnType<SecretReader>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

interface PreparedStep {
  readonly handler: StepHandler;
  readonly resolved: ResolvedInputs;
}

/** A step that took its process down this often, with nothing else running, would take the next one down too. */
const MAX_LONE_DEATHS = 3;

export function createRunStep(services: RunStepServices): RunStep {
  const openInput = createRunInputs(services);
  const run = async (
    claim: Claim,
    {
      signal,
      started,
      readRunInput,
    }: { signal: AbortSignal; started?: (() => void) | undefined; readRunInput: ReadRunInput },
  ): Promise<RanStep | undefined> => {
    let step: StepDefinition | undefined;
    let judgement: Judgement | undefined;
    let prepared: PreparedStep | undefined;
    let ended: HandlerResult | LoopStart | undefined;
    try {
      // Before anything of the step is read, which may be what takes the process down.
      refuseDeadly(claim);
      step = await definitionOf(claim, services);
      judgement = await judge(step, claim, readRunInput);
      if (judgement?.kind === 'skip') {
        const { reason, trace } = judgement;
        return { input: null, evaluationTrace: trace, result: { kind: 'skipped', reason } };
      }
      if (claim.resumed === null) started?.();
      if (judgement?.kind === 'failed') throw new StepFailure('when_failed', judgement.message);
      prepared = await prepare({ claim, step, readRunInput }, services);
      ended =
        step.steps === undefined
          ? await runHandler({ ...prepared, step, claim, signal, readRunInput, ...services })
          : startOfLoop(step, prepared.resolved.value);
    } catch (error) {
      if (error instanceof StoreUnavailableError) throw error;
      if (signal.aborted && error === signal.reason) return undefined;
      ended = failureOf(error);
    }
    if (ended === undefined) return undefined;
    const { value, secrets } = prepared?.resolved ?? { value: null, secrets: [] };
    const mask = maskerOf(secrets);
    const result = toStepResult(ended, { claim, step, mask, services });
    const input = result.kind === 'loop' ? inputOfLoop(result) : mask(value);
    return { input, ...(judgement === undefined ? {} : { evaluationTrace: judgement.trace }), result };
  };

  return async (claim, signal, started) => {
    const input = openInput(claim, signal);
    try {
      return await run(claim, { signal, started, readRunInput: input.read });
    } finally {
      input.release();
    }
  };
}

function refuseDeadly({ loneDeaths }: Claim): void {
  if (loneDeaths < MAX_LONE_DEATHS) return;
  throw new StepFailure(
    'interrupted_too_often',
    `the process died ${loneDeaths} times while it ran this step and no other; it is not tried again`,
  );
}

/** Type, conditions, retry and time limit come from the revision that the run is pinned to. */
async function definitionOf(
  { flowId, revision, stepKey }: Claim,
  { catalog }: RunStepServices,
): Promise<StepDefinition> {
  const step = stepAt(await catalog.graph(flowId, revision), stepKey);
  if (step === undefined) throw new Error(`revision ${revision} of the flow ${flowId} has no step "${stepKey}"`);
  return step;
}

/** A step that was tried before has passed its conditions: they say whether it starts, not whether it goes on. */
async function judge(step: StepDefinition, claim: Claim, readRunInput: ReadRunInput): Promise<Judgement | undefined> {
  if (triesOf(claim) > 1 || claim.resumed !== null) return undefined;
  const references = conditionReferences(step);
  if (references === undefined) return undefined;
  return judgeConditions(step, expressionContext(await readRunInput(references), claim));
}

/** The inputs come from the newest revision. */
async function prepare(
  { claim, step, readRunInput }: { claim: Claim; step: StepDefinition; readRunInput: ReadRunInput },
  { catalog, handlers, readSecret }: RunStepServices,
): Promise<PreparedStep> {
  const { flowId, revision, stepKey, stepType } = claim;
  const handler = handlers.get(stepType);
  if (handler === undefined) {
    throw new StepFailure(
      'unknown_handler',
      `no handler serves the step type "${stepType}"; there are ${[...handlers.keys()].join(', ')}`,
    );
  }
  const { inputs: written, source } =
    step.steps === undefined
      ? await catalog.inputsOf(flowId, stepKey, revision)
      : // No secret belongs to a loop itself.
        { inputs: loopInputs(step), source: 'api' as const };
  const readAllowed = (reference: string) => readSecret(reference, source);
  return { handler, resolved: await resolveInputs({ written, handler, readSecret: readAllowed, readRunInput, claim }) };
}
