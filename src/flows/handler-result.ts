import { MAX_BYTES } from '../model/run.ts';
import type { HandlerResult } from './handlers/handler.ts';
import { problemOfJson } from './non-json.ts';
import { StepFailure } from './step-failure.ts';

/** What a handler yields is code's word, not a type's: what cannot be kept fails the step. */
export function checkedResult(result: HandlerResult): HandlerResult {
  const given: Partial<HandlerResult> | undefined = result;
  if (given?.kind === 'failed') return checkedFailure(result as Extract<HandlerResult, { kind: 'failed' }>);
  if (given?.kind === 'waiting') return checkedWait(result as Extract<HandlerResult, { kind: 'waiting' }>);
  if (given?.kind !== 'succeeded') {
    throw new StepFailure('handler_error', 'the handler returned neither a success nor a failure nor a wait');
  }
  const problem = problemOfOutput(given.output);
  if (problem !== undefined) throw problem;
  return result;
}

function checkedWait(wait: Extract<HandlerResult, { kind: 'waiting' }>): HandlerResult {
  const { until, signalName, state } = wait;
  const isTime = until === undefined ? signalName !== undefined : Number.isFinite(until);
  if (!isTime || (signalName !== undefined && typeof signalName !== 'string')) {
    throw new StepFailure('handler_error', 'the handler waits for neither a time nor a signal');
  }
  const problem = state === undefined ? undefined : problemOfOutput(state);
  if (problem !== undefined) throw new StepFailure('handler_error', `what the handler keeps: ${problem.message}`);
  return wait;
}

/** An index of failed steps has codes, and takes no text of any length. */
const MAX_CODE_CHARACTERS = 100;

/** The failure is what matters: it stays as it is, and says so where its output is not kept. */
function checkedFailure({ output, ...given }: Extract<HandlerResult, { kind: 'failed' }>): HandlerResult {
  const problem = output === undefined ? undefined : problemOfOutput(output);
  const message =
    problem === undefined ? given.message : `${given.message} (its output is not stored: ${problem.message})`;
  const failure = {
    ...given,
    code: String(given.code).slice(0, MAX_CODE_CHARACTERS),
    message: String(message),
    retryable: given.retryable === true,
  };
  return problem === undefined && output !== undefined ? { ...failure, output } : failure;
}

function problemOfOutput(output: unknown): StepFailure | undefined {
  if (output === null) return undefined;
  const problem = problemOfJson(output, 'output', MAX_BYTES.output);
  if (problem === undefined) return undefined;
  return problem.kind === 'notJson'
    ? new StepFailure('output_not_json', `${problem.message}, which JSON cannot hold`)
    : new StepFailure('output_too_large', `the output ${problem.message}`);
}
