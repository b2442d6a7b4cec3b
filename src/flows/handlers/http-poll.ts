import { z } from 'zod';
import { Budget } from '../../expressions/budget.ts';
import type { CompiledExpression } from '../../expressions/compile.ts';
import { compileCondition, evaluateCondition } from '../../expressions/condition.ts';
import type { ExpressionContext } from '../../expressions/context.ts';
import { ExpressionError } from '../../expressions/errors.ts';
import { isEqual } from '../../expressions/values.ts';
import type { Json } from '../../model/json.ts';
import type { HandlerResult } from './handler.ts';

const condition = z.string().transform((source, context): CompiledExpression => {
  try {
    return compileCondition(source, 'response');
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    context.addIssue({ code: 'custom', message: error.message });
    return z.NEVER;
  }
});

const json = z.custom<Json>((value) => value !== undefined);

/** Inputs of a request that is repeated until its answer is the one that is waited for. */
export const pollInputs = {
  pollEnabled: z.boolean().default(false).describe('Repeats the request until the answer is the one waited for.'),
  pollIntervalSeconds: z.number().positive().max(86_400).default(10),
  pollTimeoutSeconds: z.number().positive().max(31_536_000).default(300),
  pollMinAttempts: z.int().min(1).default(1).describe('An earlier answer does not count.'),
  pollCondition: condition.optional().describe('A CEL expression over response.status, .headers and .body.'),
  pollConditionPath: z.string().min(1).optional().describe('Path into the JSON body, such as job.state.'),
  pollConditionEquals: json.optional().describe('What is to stand at pollConditionPath.'),
};

export interface PollInputs {
  readonly pollEnabled: boolean;
  readonly pollIntervalSeconds: number;
  readonly pollTimeoutSeconds: number;
  readonly pollMinAttempts: number;
  readonly pollCondition?: CompiledExpression | undefined;
  readonly pollConditionPath?: string | undefined;
  readonly pollConditionEquals?: Json | undefined;
}

/** What is wrong with the poll inputs together, with the field; undefined where nothing is. */
export function problemOfPoll(inputs: PollInputs): { field: keyof PollInputs; message: string } | undefined {
  const { pollCondition, pollConditionPath, pollConditionEquals } = inputs;
  if (pollCondition !== undefined && pollConditionPath !== undefined) {
    return { field: 'pollConditionPath', message: 'cannot stand beside pollCondition' };
  }
  if ((pollConditionPath === undefined) !== (pollConditionEquals === undefined)) {
    const missing = pollConditionPath === undefined ? 'pollConditionPath' : 'pollConditionEquals';
    return { field: missing, message: 'pollConditionPath and pollConditionEquals are given together' };
  }
  const hasCondition = pollCondition !== undefined || pollConditionPath !== undefined;
  if (hasCondition && !inputs.pollEnabled) {
    return { field: 'pollEnabled', message: 'must be true where a poll condition is given' };
  }
  return undefined;
}

interface PollState {
  readonly startedAt: number;
  readonly polls: number;
}

/**
 * Judges one answer of a poll: done, or to be asked again later, or failed for good. What may pass, such as an outage of
 * the other side, does not end a poll; its time does.
 */
export function judgePoll(
  answer: HandlerResult,
  inputs: PollInputs,
  { state, now }: { state: Json | undefined; now: number },
): HandlerResult {
  const before = isState(state) ? state : { startedAt: now, polls: 0 };
  const polls = before.polls + 1;
  const verdict = verdictOn(answer, inputs);
  if (verdict === 'done' && polls >= inputs.pollMinAttempts) return answer;
  if (verdict === 'failed') return answer;
  const until = now + inputs.pollIntervalSeconds * 1000;
  if (until <= before.startedAt + inputs.pollTimeoutSeconds * 1000) {
    return { kind: 'waiting', until, state: { ...before, polls } };
  }
  const last = answer.kind === 'failed' ? `; the last: ${answer.message}` : verdict === 'done' ? '' : `; ${verdict}`;
  const output = answer.kind !== 'waiting' && answer.output !== undefined ? { output: answer.output } : {};
  const message = `no such answer came in ${inputs.pollTimeoutSeconds} s and ${polls} requests${last}`;
  return { kind: 'failed', code: 'poll_timeout', message, retryable: true, ...output };
}

/** `done`, `failed`, or in words why to ask again. */
function verdictOn(answer: HandlerResult, inputs: PollInputs): string {
  const { pollCondition, pollConditionPath, pollConditionEquals } = inputs;
  const hasCondition = pollCondition !== undefined || pollConditionPath !== undefined;
  if (answer.kind === 'failed') {
    // Without a condition it is the status that is waited for.
    const isAnswer = answer.code === 'unexpected_status' && !hasCondition;
    return answer.retryable || isAnswer ? answer.message : 'failed';
  }
  if (answer.kind !== 'succeeded' || !hasCondition) return 'done';
  if (pollConditionPath !== undefined) {
    const found = valueAt(answer.output, pollConditionPath);
    return isEqual(found, pollConditionEquals, new Budget()) ? 'done' : `${pollConditionPath} was another`;
  }
  if (pollCondition === undefined) return 'done';
  // An answer that does not have the field yet is not the one waited for.
  const outcome = evaluateCondition(pollCondition, contextOf(answer.output));
  if ('error' in outcome) return outcome.error;
  return outcome.result ? 'done' : 'the condition was false';
}

function contextOf(response: Json): ExpressionContext {
  return { trigger: { body: null, headers: {}, key: '' }, steps: {}, response };
}

function valueAt(response: Json, path: string): unknown {
  let value: unknown = Reflect.get(Object(response), 'body');
  for (const key of path
    .replace(/^\$\.?/, '')
    .split('.')
    .filter(Boolean)) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function isState(state: Json | undefined): state is { readonly [Key in keyof PollState]: number } {
  return typeof state === 'object' && state !== null && 'startedAt' in state && 'polls' in state;
}
