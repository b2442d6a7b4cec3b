import { Budget } from '../../expressions/budget.ts';
import { evaluateCondition } from '../../expressions/condition.ts';
import type { ExpressionContext } from '../../expressions/context.ts';
import { valueAt } from '../../expressions/json-path.ts';
import { isEqual } from '../../expressions/values.ts';
import type { HandlerResult } from '../../flows/handlers/handler.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { HttpRequestInputs } from './http-inputs.ts';

interface PollState {
  readonly startedAt: number;
  readonly polls: number;
}

/**
 * Stored with the state of a poll, to show why it still waits: the last answer, and why it did not satisfy the
 * condition.
 */
interface LastPoll {
  readonly at: number;
  /** Null if no answer came. */
  readonly status: number | null;
  readonly why: string;
}

/**
 * Judges one answer of a poll: done, poll again later, or failed for good. A temporary problem, such as an outage of
 * the other side, does not end a poll; only its time limit does.
 */
export function judgePoll(
  answer: HandlerResult,
  inputs: HttpRequestInputs,
  { state, now }: { state: Json | undefined; now: number },
): HandlerResult {
  const before = isState(state) ? state : { startedAt: now, polls: 0 };
  const polls = before.polls + 1;
  const verdict = verdictOn(answer, inputs);
  if (verdict === 'done' && polls >= inputs.pollMinAttempts) return answer;
  if (verdict === 'failed') return answer;
  const until = now + inputs.pollIntervalSeconds * 1000;
  const lastPoll: LastPoll = { at: now, status: statusOf(answer), why: whyAgain(verdict, inputs) };
  if (until <= before.startedAt + inputs.pollTimeoutSeconds * 1000) {
    return { kind: 'waiting', until, state: { startedAt: before.startedAt, polls, lastPoll: { ...lastPoll } } };
  }
  const last = answer.kind === 'failed' ? `; the last: ${answer.message}` : verdict === 'done' ? '' : `; ${verdict}`;
  const output = answer.kind !== 'waiting' && answer.output !== undefined ? { output: answer.output } : {};
  const message = `no such answer within ${inputs.pollTimeoutSeconds} s and ${polls} requests${last}`;
  return { kind: 'failed', code: 'poll_timeout', message, retryable: true, ...output };
}

/** A poll that has to wait for its turn at the host; its time limit continues. */
export function waitInPoll(
  wait: Extract<HandlerResult, { kind: 'waiting' }>,
  inputs: HttpRequestInputs,
  { state, now }: { state: Json | undefined; now: number },
): HandlerResult {
  const before = isState(state) ? state : { startedAt: now, polls: 0 };
  const endsAt = before.startedAt + inputs.pollTimeoutSeconds * 1000;
  const own = (wait.state ?? {}) as JsonObject;
  if (now >= endsAt) {
    const message = `no such answer within ${inputs.pollTimeoutSeconds} s and ${before.polls} requests; ${own.why}`;
    return { kind: 'failed', code: 'poll_timeout', message, retryable: true };
  }
  return { ...wait, until: Math.min(wait.until ?? endsAt, endsAt), state: { ...before, ...own } };
}

/** The status of the answer, expected or not; null without one. */
function statusOf(answer: HandlerResult): number | null {
  const output = 'output' in answer ? answer.output : undefined;
  const status: unknown = typeof output === 'object' && output !== null ? Reflect.get(output, 'status') : undefined;
  return typeof status === 'number' ? status : null;
}

function whyAgain(verdict: string, { pollMinAttempts }: HttpRequestInputs): string {
  return verdict === 'done' ? `at least ${pollMinAttempts} requests are made` : verdict;
}

/** `done`, `failed`, or the reason to ask again. */
function verdictOn(answer: HandlerResult, inputs: HttpRequestInputs): string {
  const { pollCondition, pollConditionPath, pollConditionEquals } = inputs;
  const hasCondition = pollCondition !== undefined || pollConditionPath !== undefined;
  if (answer.kind === 'failed') {
    // Without a condition, the poll waits for an expected status.
    const isAnswer = answer.code === 'unexpected_status' && !hasCondition;
    return answer.retryable || isAnswer ? answer.message : 'failed';
  }
  if (answer.kind !== 'succeeded' || !hasCondition) return 'done';
  if (pollConditionPath !== undefined) {
    const found = valueInBody(answer.output, pollConditionPath);
    return isEqual(found, pollConditionEquals, new Budget()) ? 'done' : `${pollConditionPath} had another value`;
  }
  if (pollCondition === undefined) return 'done';
  // An answer that lacks the field is not the expected one yet.
  const outcome = evaluateCondition(pollCondition, pollContext(answer.output));
  if ('error' in outcome) return outcome.error;
  return outcome.result ? 'done' : 'the condition was false';
}

function pollContext(response: Json): ExpressionContext {
  return { trigger: { body: null, headers: {}, key: '' }, steps: {}, response };
}

function valueInBody(response: Json, path: string): unknown {
  const keys = path
    .replace(/^\$\.?/, '')
    .split('.')
    .filter(Boolean);
  return valueAt(Reflect.get(Object(response), 'body'), keys);
}

function isState(state: Json | undefined): state is { readonly [Key in keyof PollState]: number } {
  return typeof state === 'object' && state !== null && 'startedAt' in state && 'polls' in state;
}
