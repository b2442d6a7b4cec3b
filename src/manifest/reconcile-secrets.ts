import { formatPath, type JsonPath, mapStrings } from '../expressions/json-path.ts';
import type { Json } from '../model/json.ts';
import { errorAt, type Problem, plainTextSecret } from './issues.ts';
import { MASK } from './mask.ts';
import { isReference, resolveSecret, type SecretReader } from './read-secret.ts';
import type { Reconcile } from './reconcile.ts';
import { reconcileSecrets } from './secrets.ts';

/** Where a trigger's publisher is asked, with every secret read; one that cannot be read is empty, and is a problem. */
export function resolveReconcile(
  written: Reconcile | undefined,
  path: JsonPath,
  readSecret: SecretReader,
): { readonly reconcile?: Reconcile; readonly problems: readonly Problem[] } {
  if (written === undefined) return { problems: [] };
  const problems: Problem[] = [];
  const values = new Map<string, string>();
  for (const { path: place, text } of reconcileSecrets(written)) {
    const at = [...path, ...place];
    const secret = resolveSecret(text, readSecret);
    values.set(formatPath(place), 'error' in secret ? '' : secret.value);
    if ('error' in secret) problems.push(errorAt(at, secret.error));
    else if (text === MASK) problems.push(errorAt(at, 'is the mask shown in place of a secret, not a token'));
    else if (!isReference(text)) problems.push(plainTextSecret(at));
  }
  const fill = (text: string, place: JsonPath) => values.get(formatPath(place)) ?? text;
  return { reconcile: mapStrings(written as unknown as Json, fill) as unknown as Reconcile, problems };
}
