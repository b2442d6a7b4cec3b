import type { JsonPath } from '../expressions/json-path.ts';
import { CREDENTIAL_NAME, credentialsOf } from './mask.ts';
import { isReference } from './read-secret.ts';

/** A secret as written, and its place. */
export interface FoundSecret {
  readonly path: JsonPath;
  readonly text: string;
  /** A reference inside a longer text, `${secret('env:NAME')}`: the template inserts its value. */
  readonly isPart?: true;
}

/** Whether one of many values is a secret, such as the header `authorization`. */
export function holdsSecret(text: string, path: JsonPath): boolean {
  return isReference(text) || isCredential(path) || (/^https?:\/\//i.test(text) && credentialsOf(text).length > 0);
}

export function isCredential(path: JsonPath): boolean {
  return CREDENTIAL_NAME.test(String(path.at(-1)));
}

/** `*` in a pattern matches any key. */
export function matches(pattern: readonly string[], path: JsonPath): boolean {
  return pattern.length === path.length && pattern.every((key, index) => key === '*' || key === String(path[index]));
}
