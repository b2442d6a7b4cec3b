import type { Clock } from '../model/clock.ts';
import type { Json } from '../model/json.ts';
import type { StepDefinition } from '../model/manifest.ts';
import type { StepError } from '../model/run.ts';
import type { Claim, StepResult } from '../store/store.ts';
import type { LoopStart } from './handlers/for-each.ts';
import type { HandlerResult } from './handlers/handler.ts';
import { nextAttemptAt } from './retry.ts';
import { StepFailure } from './step-failure.ts';

/** A message is for people; an error may hold a whole document. */
const MAX_MESSAGE_CHARACTERS = 4_000;

export interface ResultContext {
  readonly claim: Claim;
  /** Undefined where the step could not be read. */
  readonly step: StepDefinition | undefined;
  /** Masks the secrets of the step. */
  readonly mask: (value: Json) => Json;
  readonly services: { readonly clock: Clock; readonly random: () => number };
}

export function failureOf(error: unknown): HandlerResult {
  const message = error instanceof Error ? error.message : 'something that is no Error was thrown';
  if (error instanceof StepFailure) return { kind: 'failed', code: error.code, message, retryable: error.retryable };
  return { kind: 'failed', code: 'internal_error', message, retryable: false };
}

/** Which try this is by the step's retry policy: an interrupted attempt said nothing about the step. */
export function triesOf({ attempt, attemptBase, interruptions }: Claim): number {
  return attempt - attemptBase - interruptions;
}

/** What a handler yielded, as it is stored: secrets masked, the next try or look with its time. */
export function toStepResult(ended: HandlerResult | LoopStart, context: ResultContext): StepResult {
  const { mask } = context;
  switch (ended.kind) {
    case 'succeeded':
      return { kind: 'succeeded', output: mask(ended.output) };
    case 'loop':
      return ended;
    case 'waiting':
      return waitOf(ended, context);
    case 'failed':
      return failureResult(ended, context);
  }
}

function failureResult(
  { code, message, retryable, retryAfterMs, output }: Extract<HandlerResult, { kind: 'failed' }>,
  { claim, step, mask, services: { clock, random } }: ResultContext,
): StepResult {
  // Masked before it is cut: of a secret that was cut in two neither part would be found.
  const error: StepError = { code, message: String(mask(message)).slice(0, MAX_MESSAGE_CHARACTERS), retryable };
  const kept = output === undefined ? {} : { output: mask(output) };
  const failedTry = { attempt: triesOf(claim), at: clock.now(), retryAfterMs };
  const dueAt = retryable ? nextAttemptAt(step?.retry, failedTry, random) : undefined;
  return dueAt === undefined ? { kind: 'failed', error, ...kept } : { kind: 'retry', error, ...kept, dueAt };
}

/** A step is looked at again no later than its time limit, which counts from the start of the attempt. */
function waitOf(
  { until, signalName, state = null }: Extract<HandlerResult, { kind: 'waiting' }>,
  { claim, step, mask }: ResultContext,
): StepResult {
  const limit = step?.timeoutSeconds === undefined ? [] : [claim.attemptStartedAt + step.timeoutSeconds * 1000];
  const times = until === undefined ? limit : [until, ...limit];
  const dueAt = times.length === 0 ? null : Math.ceil(Math.min(...times));
  const waiting = { kind: 'waiting', state: mask(state), dueAt, signalName: signalName ?? null } as const;
  return limit[0] === undefined ? waiting : { ...waiting, limitAt: Math.ceil(limit[0]) };
}
