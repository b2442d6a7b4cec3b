import { ExpressionError } from '../expressions/compile.ts';
import { compileCondition } from '../expressions/condition.ts';
import { compileEventId } from '../expressions/delivery-expressions.ts';
import { errorAt, type Problem } from './issues.ts';
import { CREDENTIAL_NAME } from './mask.ts';
import type { Trigger } from './schema.ts';
import { secretHeader } from './search-keys.ts';
import type { WebhookInputs } from './webhook-inputs.ts';

/** What is wrong with the expressions that decide about the deliveries of triggers, whatever their schemes. */
export function checkTriggerExpressions(triggers: Readonly<Record<string, Trigger>>): Problem[] {
  return Object.entries(triggers).flatMap(([triggerKey, trigger]) => {
    if (trigger.type !== 'webhook') return [];
    const { webhookWhen, webhookEventId } = trigger.inputs;
    const mistakes = {
      webhookWhen: webhookWhen === undefined ? undefined : mistakeInFilter(webhookWhen),
      webhookEventId: webhookEventId === undefined || isOff(webhookEventId) ? undefined : mistakeInId(webhookEventId),
    };
    return Object.entries(mistakes).flatMap(([field, mistake]) =>
      mistake === undefined ? [] : [errorAt(['triggers', triggerKey, 'inputs', field], mistake)],
    );
  });
}

/** Whether the trigger says that its deliveries name no event. */
export const isOff = (webhookEventId: NonNullable<WebhookInputs['webhookEventId']>) =>
  webhookEventId.trim().toLowerCase() === 'off';

function mistakeInId(source: string): string | undefined {
  const compiled = compileEventId(source);
  if (typeof compiled === 'string') return compiled;
  const secret = compiled.headers.find((each) => CREDENTIAL_NAME.test(each));
  return secret === undefined ? undefined : secretHeader(secret, 'event ids');
}

function mistakeInFilter(source: string): string | undefined {
  try {
    compileCondition(source, 'delivery');
    return undefined;
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
}
