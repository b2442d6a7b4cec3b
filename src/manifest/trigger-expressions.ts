import { ExpressionError } from '../expressions/compile.ts';
import { compileCondition } from '../expressions/condition.ts';
import { errorAt, type Problem } from './issues.ts';
import type { Trigger } from './schema.ts';

/** What is wrong with the expressions that decide about the deliveries of triggers, whatever their schemes. */
export function checkTriggerExpressions(triggers: Readonly<Record<string, Trigger>>): Problem[] {
  return Object.entries(triggers).flatMap(([triggerKey, trigger]) => {
    if (trigger.type !== 'webhook') return [];
    const at = ['triggers', triggerKey, 'inputs', 'webhookWhen'];
    const { webhookWhen } = trigger.inputs;
    const mistake = webhookWhen === undefined ? undefined : mistakeOf(() => compileCondition(webhookWhen, 'delivery'));
    return mistake === undefined ? [] : [errorAt(at, mistake)];
  });
}

function mistakeOf(compile: () => unknown): string | undefined {
  try {
    compile();
    return undefined;
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
}
