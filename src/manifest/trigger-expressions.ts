import { ExpressionError } from '../expressions/compile.ts';
import { compileCondition } from '../expressions/condition.ts';
import { compileEventId, compileKey } from '../expressions/delivery-expressions.ts';
import type { Coalesce } from './coalesce.ts';
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
    return [
      ...Object.entries(mistakes).flatMap(([field, mistake]) =>
        mistake === undefined ? [] : [errorAt(['triggers', triggerKey, 'inputs', field], mistake)],
      ),
      ...(trigger.coalesce === undefined ? [] : checkCoalesce(triggerKey, trigger.coalesce, trigger.inputs)),
    ];
  });
}

function checkCoalesce(triggerKey: string, coalesce: Coalesce, inputs: WebhookInputs): Problem[] {
  const { key, quietSeconds, maxSeconds } = coalesce;
  const at = (...path: string[]) => ['triggers', triggerKey, 'coalesce', ...path];
  const mistake = mistakeInKey(key);
  return [
    ...(mistake === undefined ? [] : [errorAt(at('key'), mistake)]),
    ...(maxSeconds < quietSeconds ? [errorAt(at('maxSeconds'), `is less than quietSeconds, ${quietSeconds}`)] : []),
    // The request would wait for a run that waits for other requests.
    // A delivery would join the run of one flow and start that of another.
    ...(inputs.webhookShared === true ? [errorAt(at(), 'is not accepted together with webhookShared')] : []),
    ...('webhookRespond' in inputs ? [errorAt(at(), 'is not accepted together with webhookRespond')] : []),
  ];
}

/** Whether the trigger says that its deliveries name no event. */
export const isOff = (webhookEventId: NonNullable<WebhookInputs['webhookEventId']>) =>
  webhookEventId.trim().toLowerCase() === 'off';

export const mistakeInKey = (source: string) => mistakeIn(compileKey(source), 'keys of deliveries');

const mistakeInId = (source: string) => mistakeIn(compileEventId(source), 'event ids');

function mistakeIn(
  compiled: ReturnType<typeof compileEventId>,
  what: Parameters<typeof secretHeader>[1],
): string | undefined {
  if (typeof compiled === 'string') return compiled;
  const secret = compiled.headers.find((each) => CREDENTIAL_NAME.test(each));
  return secret === undefined ? undefined : secretHeader(secret, what);
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
