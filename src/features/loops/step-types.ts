import { z } from 'zod';
import { stepPart } from '../../config/step-part.ts';
import { kindOf } from '../../expressions/values.ts';
import type { LoopStart } from '../../flows/delegated.ts';
import { defineHandler, noSignals } from '../../flows/handlers/handler.ts';
import type { ServedHandler } from '../../flows/handlers/outside.ts';
import { problemOfJson } from '../../flows/non-json.ts';
import { StepFailure } from '../../flows/step-failure.ts';
import type { Json } from '../../model/json.ts';
import { LOOP, type StepDefinition } from '../../model/manifest.ts';
import { MAX_BYTES } from '../../model/run.ts';
import { parseRuntimeKey } from '../../model/runtime-keys.ts';

/** More would keep a run busy for days; what is so large is better sent as several runs. */
const MAX_ITEMS = 100_000;
/** Steps of a loop in a run: what one delivery makes due must not fill the store, nor keep the other runs waiting. */
const MAX_LOOP_STEPS = 1_000_000;

/**
 * Runs a graph of children for each item; the output has what each iteration left, in the order of the items. The
 * children are steps of the run: the planner starts them, so that there is nothing here to call.
 */
const forEach: ServedHandler = {
  ...defineHandler({
    type: LOOP,
    inputs: z.strictObject({}),
    waitsFor: noSignals,
    run: () => {
      throw new StepFailure('internal_error', 'a ForEach step is run by the store');
    },
  }),
  delegated: { run: ({ step, claim, resolved }) => startOfLoop(step, resolved, claim.stepKey) },
};

/** Throws `StepFailure` if the items are not an array, or are too many or too large. */
export function startOfLoop(
  { concurrencyLimit = 1, steps = {} }: StepDefinition,
  resolved: Json,
  stepKey: string,
): LoopStart {
  const items: unknown = typeof resolved === 'object' && resolved !== null ? Reflect.get(resolved, 'forEach') : null;
  if (!Array.isArray(items)) throw new StepFailure('invalid_input', `forEach: is ${kindOf(items)}; expected an array`);
  if (items.length > MAX_ITEMS) {
    throw new StepFailure('invalid_input', `forEach: has ${items.length} items; at most ${MAX_ITEMS} are accepted`);
  }
  const children = Object.keys(steps).length;
  const position = positionOf(stepKey);
  const count = position * items.length * children;
  if (count > MAX_LOOP_STEPS) {
    const around = position === 1 ? '' : ` in ${position} iterations`;
    throw new StepFailure(
      'invalid_input',
      `forEach: ${items.length} items of ${children} steps make ${count} steps${around}; a loop of a run has at most ${MAX_LOOP_STEPS}`,
    );
  }
  const problem = problemOfJson(items, 'forEach', MAX_BYTES.loop);
  if (problem !== undefined) throw new StepFailure('input_too_large', `forEach: ${problem.message}`);
  for (const [index, item] of items.entries()) {
    const own = problemOfJson(item, 'forEach', MAX_BYTES.output);
    if (own !== undefined) throw new StepFailure('input_too_large', `forEach[${index}]: ${own.message}`);
  }
  const input = { items: items.length, concurrencyLimit };
  return { kind: 'loop', items, concurrency: concurrencyLimit, input };
}

/** The number of the iteration that a loop is in, counted over all loops around it. */
function positionOf(stepKey: string): number {
  const { iteration } = parseRuntimeKey(stepKey);
  return iteration === null ? 1 : (iteration.index + 1) * positionOf(iteration.loopKey);
}

export const loopsStepTypes = stepPart({
  name: 'loops',
  make: () => ({ handlers: [forEach], made: undefined }),
});
