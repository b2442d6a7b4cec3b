import type { ExpressionContext } from '../expressions/context.ts';
import { declaredBy, parseBody } from '../expressions/trigger-body.ts';
import { ConversionError } from '../expressions/values.ts';
import { type RunTrigger, SCHEDULED_FOR } from '../model/run.ts';
import { scopesAround } from '../model/runtime-keys.ts';
import type { Claim, RunInput } from '../store/store.ts';

/** A step's run, scope and loop item. */
export type Place = Pick<Claim, 'runId' | 'flowId' | 'revision' | 'stepKey' | 'loop'>;

/** The context of a step's expressions. The body is parsed when an expression first reads it. */
export function expressionContext(
  { trigger, deliveries, steps, triggerType, ...read }: RunInput,
  { runId, flowId, revision, stepKey, loop }: Place,
): ExpressionContext {
  const startedAt = new Date(read.startedAt).toISOString();
  return {
    trigger: {
      get body() {
        return bodyOf(trigger).value;
      },
      get envelope() {
        return bodyOf(trigger).envelope ?? bodyOf(trigger).value;
      },
      headers: trigger.headers,
      key: trigger.key,
      get deliveries() {
        return deliveriesOf(deliveries);
      },
      // A tick that an operator fired was due when it started.
      scheduledFor: triggerType === 'cron' ? (trigger.headers[SCHEDULED_FOR] ?? startedAt) : null,
    },
    run: { id: runId, startedAt, flow: flowId, revision },
    steps: loop === null ? steps : seenFrom(stepKey, steps),
    ...(loop === null ? {} : { loop }),
  };
}

/** By their own keys; a sibling hides a step with the same key further out. */
function seenFrom(stepKey: string, steps: RunInput['steps']): RunInput['steps'] {
  const seen = new Map<string, RunInput['steps'][string]>();
  for (const scope of scopesAround(stepKey).toReversed()) {
    for (const [key, step] of Object.entries(steps)) {
      const localKey = key.startsWith(scope) ? key.slice(scope.length) : '.';
      if (!localKey.includes('.')) seen.set(localKey, step);
    }
  }
  return Object.fromEntries(seen);
}

// The conditions and inputs of an attempt share one reading of the run, and one parsing.
const parsedBodies = new WeakMap<Sent, ReturnType<typeof parseBody>>();

type Sent = Pick<RunTrigger, 'body' | 'contentType' | 'headers'>;

function bodyOf(sent: Sent, name = 'trigger.body') {
  const parsed = parsedBodies.get(sent) ?? parseBody(sent.body, declaredBy(sent));
  parsedBodies.set(sent, parsed);
  if ('error' in parsed) throw new ConversionError(`${name} cannot be read: ${parsed.error}`);
  return parsed;
}

function deliveriesOf(deliveries: RunInput['deliveries']): ExpressionContext['trigger']['deliveries'] {
  return deliveries.map((delivery, index) => ({
    id: delivery.id,
    receivedAt: new Date(delivery.receivedAt).toISOString(),
    headers: delivery.headers,
    get body() {
      return bodyOf(delivery, `trigger.deliveries[${index}].body`).value;
    },
  }));
}
