import { isOfBody } from '../../expressions/context.ts';
import { secretHeader } from '../../manifest/issues.ts';
import { CREDENTIAL_NAME } from '../../manifest/mask.ts';
import type { ObjectMistake } from '../../manifest/trigger-part.ts';
import { compileKeys, KEPT } from './keys.ts';

/** Mistakes of search keys, whatever the trigger's scheme: values are stored, shown and searched. */
export function keyMistakes(written: Readonly<Record<string, string>>): ObjectMistake[] {
  const { keys, mistakes } = compileKeys(written);
  const secrets = keys.flatMap(({ name: field, headers, expression }): ObjectMistake[] => {
    const header = headers.find((each) => CREDENTIAL_NAME.test(each));
    if (header !== undefined) return [{ field, message: secretHeader(header, KEPT) }];
    const read = expression.references.filter(({ root }) => isOfBody(root)).map(({ path }) => String(path.at(-1)));
    const secret = read.find((each) => CREDENTIAL_NAME.test(each));
    if (secret === undefined) return [];
    const message = `reads "${secret}", which looks like a secret: the values are stored and shown in plain text`;
    return [{ kind: 'warning', field, message }];
  });
  return [...mistakes.map(({ name, message }) => ({ field: name, message })), ...secrets];
}
