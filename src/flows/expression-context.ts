import type { ExpressionContext, Root } from '../expressions/context.ts';
import { parseBody } from '../expressions/trigger-body.ts';
import type { Json } from '../model/json.ts';
import type { RunTrigger } from '../model/run.ts';
import type { RunInput } from '../store/store.ts';
import { StepFailure } from './step-failure.ts';

/** What the expressions of a step read; the body is parsed where one of these roots needs it. Throws `StepFailure`. */
export function expressionContext({ trigger, steps }: RunInput, roots: ReadonlySet<Root>): ExpressionContext {
  const body = roots.has('trigger') ? bodyOf(trigger) : null;
  return { trigger: { body, headers: trigger.headers, key: trigger.key }, steps };
}

function bodyOf({ body, contentType }: RunTrigger): Json {
  const parsed = parseBody(body, contentType ?? undefined);
  if ('error' in parsed) throw new StepFailure('expression_failed', `trigger.body: ${parsed.error}`);
  return parsed.value;
}
