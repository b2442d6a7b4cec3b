import { ExpressionError } from '../expressions/compile.ts';
import { compileCondition } from '../expressions/condition.ts';
import { compileEventId, compileKey, secretHeader } from '../expressions/delivery-expressions.ts';
import { errorAt, type Problem, warningAt } from './issues.ts';
import { CREDENTIAL_NAME } from './mask.ts';
import type { Trigger } from './schema.ts';
import { objectsOf } from './trigger-objects.ts';
import { filterOf } from './webhook-fields.ts';
import type { WebhookInputs } from './webhook-inputs.ts';

/** Problems of expressions that decide about deliveries, whatever the triggers' schemes. */
export function checkTriggerExpressions(triggers: Readonly<Record<string, Trigger>>): Problem[] {
  return Object.entries(triggers).flatMap(([triggerKey, trigger]) => {
    if (trigger.type !== 'webhook') return checkObjects(triggerKey, trigger);
    const { webhookEventId } = trigger.inputs;
    const filter = filterOf(trigger.inputs);
    const mistakes = {
      ...(filter && { [filter.field]: mistakeInFilter(filter.condition) }),
      webhookEventId: webhookEventId === undefined || isOff(webhookEventId) ? undefined : mistakeInId(webhookEventId),
    };
    return [
      ...Object.entries(mistakes).flatMap(([field, mistake]) =>
        mistake === undefined ? [] : [errorAt(['triggers', triggerKey, 'inputs', field], mistake)],
      ),
      ...checkObjects(triggerKey, trigger),
    ];
  });
}

function checkObjects(triggerKey: string, trigger: Trigger): Problem[] {
  return objectsOf(trigger).flatMap(([name, object, written]) => {
    const at = (...field: string[]) => ['triggers', triggerKey, name, ...field];
    const key = object.coalesces?.(written).key;
    const mistake = key === undefined ? undefined : mistakeInKey(key);
    return [
      ...(mistake === undefined ? [] : [errorAt(at('key'), mistake)]),
      ...(object.mistakes?.(written, { ...trigger.inputs }) ?? []).map(({ kind, field, message }) =>
        (kind === 'warning' ? warningAt : errorAt)(field === undefined ? at() : at(field), message),
      ),
    ];
  });
}

/** Whether the trigger declares that its deliveries name no event. */
export const isOff = (webhookEventId: NonNullable<WebhookInputs['webhookEventId']>) =>
  webhookEventId.trim().toLowerCase() === 'off';

export const mistakeInKey = (source: string) => mistakeIn(compileKey(source), 'keys of deliveries are stored');

const mistakeInId = (source: string) => mistakeIn(compileEventId(source), 'event ids are stored');

function mistakeIn(compiled: ReturnType<typeof compileEventId>, kept: string): string | undefined {
  if (typeof compiled === 'string') return compiled;
  const secret = compiled.headers.find((each) => CREDENTIAL_NAME.test(each));
  return secret === undefined ? undefined : secretHeader(secret, kept);
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
