import { isOfBody } from '../expressions/context.ts';
import { compileKeys } from '../expressions/search-keys.ts';
import { errorAt, type Problem, warningAt } from './issues.ts';
import { CREDENTIAL_NAME } from './mask.ts';
import type { Trigger } from './schema.ts';

/** Problems of search keys, whatever the triggers' schemes: values are stored, shown and searched. */
export function checkSearchKeys(triggers: Readonly<Record<string, Trigger>>): Problem[] {
  return Object.entries(triggers).flatMap(([triggerKey, trigger]) => {
    if (trigger.type === 'cron' || trigger.searchKeys === undefined) return [];
    const at = (name: string) => ['triggers', triggerKey, 'searchKeys', name];
    const { keys, mistakes } = compileKeys(trigger.searchKeys);
    const secrets = keys.flatMap(({ name, headers, expression }) => {
      const header = headers.find((each) => CREDENTIAL_NAME.test(each));
      if (header !== undefined) return [errorAt(at(name), secretHeader(header))];
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

export function secretHeader(
  name: string,
  what: 'search keys' | 'event ids' | 'keys of orders' | 'keys of deliveries' = 'search keys',
): string {
  const kept = what === 'search keys' ? 'values of search keys are stored and shown' : `${what} are stored`;
  return `reads the header ${name}, which may hold a secret or a signature; ${kept}`;
}
