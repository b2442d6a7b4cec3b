import { StoreUnavailableError } from '../errors.ts';
import { readable } from '../model/error-kind.ts';
import type { StepDefinition } from '../model/manifest.ts';
import type { Claim } from '../store/store.ts';
import type { HandlerResult } from './handlers/handler.ts';
import type { ServedHandler } from './handlers/outside.ts';
import { InternalFaultError } from './load-once.ts';
import { problemOfOutput } from './non-json.ts';
import { StepFailure } from './step-failure.ts';

export function checkedWait(wait: Extract<HandlerResult, { kind: 'waiting' }>): HandlerResult {
  const { until, signalName, state } = wait;
  // Beyond this, JavaScript has no dates, and no store can hold the time.
  const isDate = typeof until === 'number' && Math.abs(until) <= 8.64e15;
  const isTime = until === undefined ? signalName !== undefined : isDate;
  if (!isTime || (signalName !== undefined && typeof signalName !== 'string')) {
    throw new StepFailure('handler_error', 'the handler waits for neither a time nor a signal');
  }
  const problem = state === undefined ? undefined : problemOfOutput(state);
  if (problem !== undefined) throw new StepFailure('handler_error', `what the handler keeps: ${problem.message}`);
  return wait;
}

/** The index of failed steps contains codes, whose length must be limited. */
const MAX_CODE_CHARACTERS = 100;

/** The failure itself matters: it stays unchanged, and its message says so if its output is not stored. */
export function checkedFailure({ output, ...given }: Extract<HandlerResult, { kind: 'failed' }>): HandlerResult {
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

/** The step's result for an error that a handler throws. */
export function thrown(error: unknown): HandlerResult {
  // The handler asked for the trigger's body and the store had no answer: that is not the step's fault.
  if (error instanceof StoreUnavailableError || error instanceof InternalFaultError) throw error;
  // Its result was already checked.
  if (error instanceof StepFailure) throw error;
  return { kind: 'failed', code: 'handler_error', message: messageOf(error), retryable: true };
}

export function messageOf(thrown: unknown): string {
  const error = readable(thrown);
  return error instanceof Error ? error.message : `the handler threw a ${typeof error}`;
}

interface TimedOut {
  readonly step: StepDefinition;
  readonly claim: Claim;
  readonly handler: ServedHandler;
}

export function timedOut({ step, claim, handler }: TimedOut): HandlerResult {
  const why = handler.whyWaiting?.(claim.resumed?.state);
  const message = `the step took longer than its ${step.timeoutSeconds} s${why === undefined ? '' : `; it waited because ${why}`}`;
  return { kind: 'failed', code: 'timeout', message, retryable: true };
}
