import { isOfBody } from '../expressions/context.ts';
import { compileKeys } from '../expressions/search-keys.ts';
import { errorAt, type Problem, secretHeader, warningAt } from './issues.ts';
import { CREDENTIAL_NAME } from './mask.ts';
import type { Trigger } from './schema.ts';

export const KEPT = 'values of search keys are stored and shown';

/** Problems of search keys, whatever the triggers' schemes: values are stored, shown and searched. */
export function checkSearchKeys(triggers: Readonly<Record<string, Trigger>>): Problem[] {
  return Object.entries(triggers).flatMap(([triggerKey, trigger]) => {
    if (trigger.type === 'cron' || trigger.searchKeys === undefined) return [];
    const at = (name: string) => ['triggers', triggerKey, 'searchKeys', name];
    const { keys, mistakes } = compileKeys(trigger.searchKeys);
    const secrets = keys.flatMap(({ name, headers, expression }) => {
      const header = headers.find((each) => CREDENTIAL_NAME.test(each));
      if (header !== undefined) return [errorAt(at(name), secretHeader(header, KEPT))];
      const fields = expression.references.filter(({ root }) => isOfBody(root)).map(({ path }) => String(path.at(-1)));
      const field = fields.find((each) => CREDENTIAL_NAME.test(each));
      if (field === undefined) return [];
      return [
        warningAt(
          at(name),
          `reads "${field}", which looks like a secret: the values are stored and shown in plain text`,
        ),
      ];
    });
    return [...mistakes.map(({ name, message }) => errorAt(at(name), message)), ...secrets];
  });
}
