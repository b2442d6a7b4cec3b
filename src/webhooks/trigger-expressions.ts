import { compileCondition } from '../expressions/condition.ts';
import { deliveryData, evaluateFilter } from '../expressions/delivery-expressions.ts';
import type { ArrivingBody } from '../expressions/trigger-body.ts';
import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Delivery, GateResult } from '../model/delivery.ts';

/** What the expressions of a trigger say of one delivery that its gates let pass. */
export interface Said {
  /** It starts no run, unless it repeats something. */
  readonly isFiltered: boolean;
  /** An expression gave nothing that counts: the run starts as if it were not there. */
  readonly isUnevaluated: boolean;
  /** What the record tells of it, behind the gates. */
  readonly told: readonly GateResult[];
}

/** Evaluates the expressions of a trigger. Never throws. */
export type JudgeByExpressions = (headers: Delivery['headers'], body: ArrivingBody) => Said;

/** Undefined where the trigger has none, so that it costs nothing. */
export function prepareExpressions({ inputs }: Pick<WebhookTrigger, 'inputs'>): JudgeByExpressions | undefined {
  if (inputs.webhookWhen === undefined) return undefined;
  const filter = compileCondition(inputs.webhookWhen, 'delivery');
  return (headers, body) => {
    const data = deliveryData({ headers, body: () => body.exactValue() });
    const passes = evaluateFilter(filter, data);
    if (passes === true) return { isFiltered: false, isUnevaluated: false, told: [] };
    const isFailure = passes !== false;
    const detail = isFailure ? `${passes.error}; the run starts` : `${filter.source} is false: no run starts`;
    const outcome = isFailure ? 'not evaluated' : 'failed';
    const told: GateResult = { gate: 'webhookWhen', outcome, reason: null, detail, facts: {} };
    return { isFiltered: !isFailure, isUnevaluated: isFailure, told: [told] };
  };
}
