import type { Vars } from '../expressions/compile.ts';
import type { Reference } from '../expressions/context.ts';
import type { JsonPath } from '../expressions/json-path.ts';
import { errorAt, MAX_NAMES, type Problem, warningAt } from './issues.ts';
import { CREDENTIAL_NAME } from './mask.ts';

const PREFIX = 'vars.';
/** Matches keys of publishers, and letters and digits in a mix that people do not write. */
const LOOKS_SECRET = /^(sk|pk|rk|whsec|ghp|xox[bp])[_-]|^(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[\w+/=-]{24,}$|PRIVATE KEY/;

/** The variables that a manifest may read, stored with its revision like the files that it names. */
export function varsRead(steps: unknown, vars: Vars): Readonly<Record<string, string>> {
  const text = JSON.stringify(steps);
  if (!text.includes('vars')) return {};
  return Object.fromEntries(
    Object.entries(vars).flatMap(([name, value]) => (text.includes(name) ? [[PREFIX + name, value] as const] : [])),
  );
}

/** The variables of a revision, from everything stored with it. */
export const varsIn = (files: Readonly<Record<string, string>>): Vars =>
  Object.fromEntries(
    Object.entries(files).flatMap(([name, value]) =>
      name.startsWith(PREFIX) ? [[name.slice(PREFIX.length), value]] : [],
    ),
  );

export function checkVar({ path: [, name] }: Reference, at: JsonPath, vars: Vars): Problem[] {
  if (typeof name !== 'string')
    return [errorAt(at, 'reads vars without a name that is written out, such as vars.REGION')];
  if (!Object.hasOwn(vars, name)) {
    const known = Object.keys(vars).slice(0, MAX_NAMES).join(', ');
    const others = known === '' ? 'none is set' : `known are ${known}`;
    return [
      errorAt(at, `reads vars.${name}, which is not set: SLUICE_VAR_${name}, or vars of the config module; ${others}`),
    ];
  }
  if (!CREDENTIAL_NAME.test(name) && !LOOKS_SECRET.test(vars[name] ?? '')) return [];
  return [
    warningAt(
      at,
      `reads vars.${name}, which looks like a secret and is stored and shown; \${secret('env:NAME')} is masked`,
    ),
  ];
}
