import { z } from 'zod';
import { parseWith } from '../manifest/issues.ts';
import { readJsonFile } from '../manifest/json-text.ts';
import { resolveSecret, type SecretReader } from '../manifest/read-secret.ts';
import { isPlaceholder, repeatsOneByte } from '../webhooks/weaknesses.ts';

/** The scopes of a token: read the dashboard, act on runs and deliveries, change manifests, only read the metrics. */
export const SCOPES = ['read', 'operate', 'deploy', 'metrics'] as const;
export type Scope = (typeof SCOPES)[number];

/** Permissions, and the flows to which they apply. */
export interface Grant {
  readonly scopes: readonly Scope[];
  /** Patterns of flow names or ids; absent for all flows. */
  readonly flows?: readonly string[] | undefined;
}

/** A separate token for a program or person, so that the activity list names its user. */
export interface NamedToken extends Grant {
  readonly name: string;
  readonly token: string;
}

/** Permissions of people whom a proxy signed in as members of this group. */
export interface GroupGrant extends Grant {
  readonly group: string;
}

export type TokenEntry = NamedToken | GroupGrant;

export const isGroup = (entry: TokenEntry): entry is GroupGrant => 'group' in entry;
export const isToken = (entry: TokenEntry): entry is NamedToken => 'token' in entry;

const MIN_BYTES = 16;

const grantFields = {
  scopes: z.array(z.enum(SCOPES)).min(1),
  flows: z
    .array(
      z
        .string()
        .min(1)
        .max(200)
        .refine((pattern) => pattern.trim() === pattern, 'begins or ends with white space')
        .refine((pattern) => !/^!|[?[\]{}\\]/.test(pattern), 'has another wildcard than *, the only one that there is'),
    )
    .min(1)
    .optional(),
};
const tokenSchema = z.strictObject({
  name: z.string().regex(/^[\w.@-]{1,64}$/, 'is not a name of 1 to 64 letters, digits or any of ._@-'),
  token: z.string().min(1),
  ...grantFields,
});
const groupSchema = z.strictObject({
  group: z
    .string()
    .regex(
      /^[^\s,|](?:[^,|\p{Cc}]{0,254}[^\s,|])?$/u,
      'is not a group: it is blank, or has a comma, a bar or white space around',
    ),
  ...grantFields,
});

type TokensOrMistakes = { readonly tokens: readonly TokenEntry[] } | { readonly lines: readonly string[] };

/** The tokens of a setting: a JSON file's path, or the list itself. Or one line per mistake; none quotes a token. */
export function readTokens(given: unknown, readSecret: SecretReader): TokensOrMistakes {
  if (typeof given !== 'string') return checkTokens(given, readSecret);
  const file = readJsonFile(given, readSecret);
  return 'lines' in file ? file : checkTokens(file.value, readSecret);
}

function checkTokens(given: unknown, readSecret: SecretReader): TokensOrMistakes {
  const read = readEntries(given);
  if ('lines' in read) return read;
  const lines: string[] = read.entries.flatMap(unlimited);
  const entries = read.entries.map((entry): TokenEntry => {
    if (isGroup(entry)) return entry;
    const secret = resolveSecret(entry.token, readSecret);
    if ('error' in secret) {
      lines.push(`the token of ${entry.name}: ${secret.error}`);
      return entry;
    }
    const { value: token } = secret;
    if (isPlaceholder(token)) lines.push(`the token of ${entry.name} is a placeholder that anyone can guess`);
    else if (Buffer.byteLength(token) < MIN_BYTES) {
      lines.push(`the token of ${entry.name} has fewer than ${MIN_BYTES} bytes: it can be guessed`);
    } else if (repeatsOneByte(Buffer.from(token))) {
      lines.push(`the token of ${entry.name} repeats one byte: it can be guessed`);
    }
    return { ...entry, token };
  });
  const tokens = entries.filter(isToken);
  for (const [what, values] of [
    ['name', tokens.map(({ name }) => name)],
    ['token', tokens.map(({ token }) => token)],
  ] as const) {
    const again = values.findIndex((value, at) => values.indexOf(value) < at);
    if (again !== -1) lines.push(`${tokens[again]?.name} has the same ${what} as another entry`);
  }
  return lines.length > 0 ? { lines } : { tokens: entries };
}

function readEntries(given: unknown): { readonly entries: TokenEntry[] } | { readonly lines: string[] } {
  const list = parseWith(z.array(z.unknown()), given);
  if ('problems' in list) return { lines: list.problems.map(({ message }) => `the list ${message}`) };
  const entries: TokenEntry[] = [];
  const lines = list.value.flatMap((entry, index) => {
    const isOfGroup = typeof entry === 'object' && entry !== null && 'group' in entry;
    const parsed = parseWith<TokenEntry>(isOfGroup ? groupSchema : tokenSchema, entry);
    if ('value' in parsed) entries.push(parsed.value);
    return 'value' in parsed
      ? []
      : parsed.problems.map(({ path, message }) => `${[index, ...path].join('.')} ${message}`);
  });
  return lines.length > 0 ? { lines } : { entries };
}

/** Scopes that no pattern limits: a deployer can give a flow any name, and a metric counts all flows. */
const OF_ALL_FLOWS: readonly Scope[] = ['deploy', 'metrics'];

function unlimited(entry: TokenEntry): string[] {
  const given = entry.flows === undefined ? [] : entry.scopes.filter((scope) => OF_ALL_FLOWS.includes(scope));
  const of = isGroup(entry) ? `the group ${entry.group}` : `the token ${entry.name}`;
  return given.map(
    (scope) => `${of} has the scope ${scope}, which is about all flows, and flows; leave one of the two out`,
  );
}
