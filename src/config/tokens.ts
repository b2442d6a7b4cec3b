import { z } from 'zod';
import { parseWith } from '../manifest/issues.ts';
import { resolveSecret, type SecretReader } from '../manifest/read-secret.ts';
import { isPlaceholder } from '../webhooks/weaknesses.ts';

/** What a token may do: read the dashboard, act on runs and deliveries, change manifests, and read the metrics alone. */
export const SCOPES = ['read', 'operate', 'deploy', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];

/** A program's or person's own way into the dashboard, so that the activity list can name who did what. */
export interface NamedToken {
  readonly name: string;
  readonly token: string;
  readonly scopes: readonly Scope[];
}

const MIN_BYTES = 16;

const tokenSchema = z.strictObject({
  name: z.string().regex(/^[\w.@-]{1,64}$/, 'is not a name of 1 to 64 letters, digits or any of ._@-'),
  token: z.string().min(1),
  scopes: z.array(z.enum(SCOPES)).min(1),
});
const fileSchema = z.array(tokenSchema);

type TokensOrMistakes = { readonly tokens: readonly NamedToken[] } | { readonly lines: readonly string[] };

/**
 * The tokens that a setting gives: the path of a JSON file, or the list itself. Else a line for each mistake; none quotes a
 * token.
 */
export function readTokens(given: unknown, readSecret: SecretReader): TokensOrMistakes {
  if (typeof given !== 'string') return checkTokens(given, readSecret);
  const file = readSecret(`file:${given}`);
  if ('error' in file) return { lines: [file.error] };
  let list: unknown;
  try {
    list = JSON.parse(file.value);
  } catch {
    return { lines: [`the file ${given} is not JSON`] };
  }
  return checkTokens(list, readSecret);
}

function checkTokens(given: unknown, readSecret: SecretReader): TokensOrMistakes {
  const parsed = parseWith(fileSchema, given);
  if ('problems' in parsed) {
    return { lines: parsed.problems.map(({ path, message }) => `${path.join('.') || 'the list'} ${message}`) };
  }
  const lines: string[] = [];
  const tokens = parsed.value.map((entry): NamedToken => {
    const secret = resolveSecret(entry.token, readSecret);
    if ('error' in secret) {
      lines.push(`the token of ${entry.name}: ${secret.error}`);
      return entry;
    }
    const { value: token } = secret;
    if (isPlaceholder(token)) lines.push(`the token of ${entry.name} is a placeholder that anyone can guess`);
    else if (Buffer.byteLength(token) < MIN_BYTES) {
      lines.push(`the token of ${entry.name} has fewer than ${MIN_BYTES} bytes: it can be guessed`);
    }
    return { ...entry, token };
  });
  for (const [what, values] of [
    ['name', tokens.map(({ name }) => name)],
    ['token', tokens.map(({ token }) => token)],
  ] as const) {
    const again = values.findIndex((value, at) => values.indexOf(value) < at);
    if (again !== -1) lines.push(`${tokens[again]?.name} has the same ${what} as another entry`);
  }
  return lines.length > 0 ? { lines } : { tokens };
}
