import { compileCondition } from '../../expressions/condition.ts';
import { ExpressionError, TemplateError } from '../../expressions/errors.ts';
import type { Reference } from '../../expressions/references.ts';
import { compileTemplate } from '../../expressions/template.ts';
import type { Json } from '../../model/json.ts';
import type { StepDefinition } from '../../model/manifest.ts';

/** Keys of the steps that the placeholders of inputs read. */
export function stepsReadIn(inputs: Json): string[] {
  return namesIn(() => compileTemplate(inputs).references);
}

/** The same for all of a step: inputs, items, conditions and children. */
export function stepsReadBy({ inputs, forEach, runAfter, steps }: StepDefinition): string[] {
  const conditions = Object.values(runAfter).flatMap(({ when }) =>
    when === undefined ? [] : namesIn(() => compileCondition(when).references),
  );
  const children = Object.values(steps ?? {}).flatMap(stepsReadBy);
  return [...stepsReadIn(inputs), ...stepsReadIn(forEach ?? null), ...conditions, ...children];
}

function namesIn(read: () => readonly Reference[]): string[] {
  try {
    return read().flatMap(({ root, path: [, key] }) => (root === 'steps' && typeof key === 'string' ? [key] : []));
  } catch (error) {
    // A deployed manifest compiled when it was loaded; what no longer compiles reads nothing.
    if (error instanceof TemplateError || error instanceof ExpressionError) return [];
    throw error;
  }
}
