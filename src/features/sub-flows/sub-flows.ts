import type { DelegatedServices, DelegatedStep, SubRunStart } from '../../flows/delegated.ts';
import type { HandlerResult } from '../../flows/handlers/handler.ts';
import { problemOfJson } from '../../flows/non-json.ts';
import { StepFailure } from '../../flows/step-failure.ts';
import { MINUTE_MS } from '../../model/clock.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import { PINNED_INPUTS, type StepDefinition } from '../../model/manifest.ts';
import { unhandledFailures, wire } from '../../model/planner.ts';
import { MAX_BYTES, type StepErrorCode } from '../../model/run.ts';
import type { Claim, RunDetail } from '../../store/store.ts';

/** The inputs of a `RunFlow` step, parsed by its schema. */
interface RunFlowInputs {
  readonly flow: string;
  readonly body?: Json | undefined;
  readonly wait: boolean;
}

/** A step that has waited goes on with the run that it started, whatever its inputs are now. */
export async function runSubFlow(
  given: DelegatedStep,
  services: DelegatedServices,
): Promise<HandlerResult | SubRunStart> {
  const runId = subRunOf(given.claim);
  return runId === undefined ? startOfSubRun(given.inputs() as RunFlowInputs) : endOfSubRun(runId, given, services);
}

/** Throws `StepFailure` if the body is too large. */
function startOfSubRun({ flow, body = null, wait }: RunFlowInputs): SubRunStart {
  const problem = problemOfJson(body, 'body', MAX_BYTES.output);
  if (problem !== undefined) throw new StepFailure('input_too_large', `inputs.body: ${problem.message}`);
  return { kind: 'runFlow', flowId: flow.toLowerCase(), body, isAwaited: wait };
}

/** Inputs of a `RunFlow` step: the choice of the flow is pinned; the body comes from the newest revision. */
export function withPinnedInputs(newest: Json, { inputs }: Pick<StepDefinition, 'inputs'>): JsonObject {
  const given = Object.entries(newest as JsonObject).filter(([key]) => !isPinned(key));
  const pinned = Object.entries(inputs).filter(([key]) => isPinned(key));
  return Object.fromEntries([...given, ...pinned]);
}

function isPinned(key: string): boolean {
  return (PINNED_INPUTS as readonly string[]).includes(key);
}

/** The run that a claimed step waits for; undefined if it has not started one. */
function subRunOf({ resumed }: Pick<Claim, 'resumed'>): string | undefined {
  const { state } = resumed ?? {};
  const subRun: unknown = typeof state === 'object' && state !== null ? Reflect.get(state, 'subRun') : undefined;
  return typeof subRun === 'string' ? subRun : undefined;
}

/** Delay before looking again at a run that ended and was reopened by hand before its end was seen. */
const LOOK_AGAIN_MS = MINUTE_MS;

/** What the end of a run means for the step that waits for it. Rejects if the store does. */
async function endOfSubRun(
  runId: string,
  { step: { timeoutSeconds }, claim, now }: DelegatedStep,
  services: DelegatedServices,
): Promise<HandlerResult> {
  const run = await services.store.findRun(runId);
  if (run === undefined) return failed('sub_run_failed', `the run ${runId} is no longer stored`);
  if (run.status === 'Running') {
    if (timeoutSeconds === undefined || now < claim.attemptStartedAt + timeoutSeconds * 1000) {
      return { kind: 'waiting', until: now + LOOK_AGAIN_MS, state: { subRun: runId } };
    }
    return failed('timeout', `the step took longer than its ${timeoutSeconds} s`);
  }
  const about = `the run ${runId} of the flow ${run.flowName}`;
  const output = { runId, status: run.status };
  switch (run.status) {
    case 'Failed':
      return { ...failed('sub_run_failed', `${about} failed${await causeOf(run, services)}`), output };
    case 'TimedOut':
      return { ...failed('sub_run_timed_out', `${about} reached its time limit`), output };
    case 'Cancelled': {
      const reason = run.cancelReason === null ? '' : `: ${run.cancelReason}`;
      // Somebody cancelled it on purpose, and a retry would undo that.
      return { ...failed('sub_run_cancelled', `${about} was cancelled${reason}`), retryable: false, output };
    }
    default:
      return { kind: 'succeeded', output: { ...output, output: await outputOf(run, services) } };
  }
}

function failed(code: StepErrorCode, message: string): Extract<HandlerResult, { kind: 'failed' }> {
  return { kind: 'failed', code, message, retryable: true };
}

/** The step that made a run fail, and why. */
async function causeOf({ id, flowId, revision }: RunDetail, { store, catalog }: DelegatedServices): Promise<string> {
  const { graph } = await catalog.pinned(flowId, revision);
  const steps = await store.outlineSteps(id, Object.keys(graph));
  const [key] = unhandledFailures(wire(graph), new Map(steps.map(({ stepKey, status }) => [stepKey, status])));
  const error = steps.find(({ stepKey }) => stepKey === key)?.error;
  return key === undefined ? '' : ` at "${key}": ${error?.message ?? 'no reason was stored'}`;
}

/** The output of its last step; if there are several, their outputs by key, as for an iteration of a loop. */
async function outputOf({ id, flowId, revision }: RunDetail, { store, catalog }: DelegatedServices): Promise<Json> {
  const { graph } = await catalog.pinned(flowId, revision);
  const last = Object.entries(wire(graph)).flatMap(([key, { downstream }]) => (downstream.length === 0 ? [key] : []));
  if (last.length === 0) return null;
  // Twice, because the run's own body is read, too, and can be as large as an output.
  const left = await store.readRunInput({ runId: id, stepKeys: last, maxBytes: 2 * MAX_BYTES.output });
  const outputs = left === undefined || left.kind !== undefined ? undefined : left.steps;
  const [only] = last;
  const output =
    last.length === 1 && only !== undefined
      ? (outputs?.[only]?.output ?? null)
      : Object.fromEntries(last.map((key) => [key, outputs?.[key]?.output ?? null]));
  const isTooLarge = outputs === undefined || problemOfJson(output, 'output', MAX_BYTES.output) !== undefined;
  if (!isTooLarge) return output;
  throw new StepFailure(
    'output_too_large',
    `the output of the last steps of the run ${id} is larger than ${MAX_BYTES.output} bytes of JSON; ` +
      'end that flow with a step whose output is smaller, such as a Transform',
  );
}
