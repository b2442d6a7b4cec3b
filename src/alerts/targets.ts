import { z } from 'zod';
import { parseWith } from '../manifest/issues.ts';
import { maskerOf } from '../manifest/mask.ts';
import { resolveSecret, type SecretReader } from '../manifest/read-secret.ts';

/** What a target may be told of. */
export const ALERT_EVENTS = ['run.failed', 'attention', 'deploy.refused', 'access.widened', 'not_ready'] as const;
export type AlertEvent = (typeof ALERT_EVENTS)[number];

const shared = {
  /** All where not given. */
  events: z
    .array(z.enum(ALERT_EVENTS))
    .min(1)
    .default([...ALERT_EVENTS]),
  /** Ids or names; what belongs to no flow is then not told. All where not given. */
  flows: z.array(z.string().min(1)).min(1).optional(),
  /** At most one message in this time; what happens meanwhile is gathered. */
  intervalSeconds: z.number().min(1).max(86_400).default(60),
};
const secret = z.string().min(1);
const posted = { ...shared, url: secret };

const targetSchema = z.discriminatedUnion(
  'type',
  [
    z.strictObject({ type: z.literal('slack'), ...posted }),
    z.strictObject({ type: z.literal('teams'), ...posted }),
    z.strictObject({ type: z.literal('discord'), ...posted }),
    z.strictObject({ type: z.literal('json'), ...posted, secret }),
    z.strictObject({
      type: z.literal('smtp'),
      ...shared,
      host: z.string().regex(/^[\w.:-]+$/, 'is not a host name'),
      port: z.int().min(1).max(65_535).optional(),
      /** `starttls` upgrades the connection and fails where the server cannot; `tls` begins with it. */
      security: z.enum(['starttls', 'tls', 'none']).default('starttls'),
      user: secret.optional(),
      password: secret.optional(),
      from: z.email('is not an address'),
      to: z.array(z.email('is not an address')).min(1).max(50),
    }),
  ],
  'is not one of slack, teams, discord, json, smtp',
);

const fileSchema = z.strictObject({
  $schema: z.string().optional(),
  /** Where people reach the page, without a slash at its end. */
  pageUrl: z
    .url({ protocol: /^https?$/, error: 'is not an http(s) URL' })
    .transform((text) => text.replace(/\/+$/, ''))
    .optional(),
  /** The same thing is told again after this time at the earliest. */
  repeatSeconds: z.number().min(60).max(604_800).default(3600),
  targets: z.record(
    z.string().regex(/^[\w.-]{1,64}$/, 'is not a name of 1 to 64 letters, digits or any of ._-'),
    targetSchema,
  ),
});

/** Who is told, and how; secrets as written, so mostly as references. */
export type AlertTarget = z.output<typeof targetSchema> & { readonly name: string };

/** Who is told of what. */
export interface AlertSettings {
  readonly pageUrl: string | undefined;
  readonly repeatSeconds: number;
  readonly targets: readonly AlertTarget[];
}

type ParsedAlerts = { readonly alerts: AlertSettings } | { readonly lines: readonly string[] };

/**
 * Parses the setting: the path of a JSON file, or its content. Yields a line for each mistake, without secrets. All
 * references must be readable, but are kept as references: each attempt to send reads them again.
 */
export function readAlerts(given: unknown, readSecret: SecretReader): ParsedAlerts {
  if (typeof given !== 'string') return checkAlerts(given, readSecret);
  const file = readSecret(`file:${given}`);
  if ('error' in file) return { lines: [file.error] };
  try {
    return checkAlerts(JSON.parse(file.value), readSecret);
  } catch {
    return { lines: [`the file ${given} is not JSON`] };
  }
}

function checkAlerts(given: unknown, readSecret: SecretReader): ParsedAlerts {
  const parsed = parseWith(fileSchema, given);
  if ('problems' in parsed) {
    return { lines: parsed.problems.map(({ path, message }) => `${path.join('.') || 'the file'} ${message}`) };
  }
  const { pageUrl, repeatSeconds } = parsed.value;
  const targets = Object.entries(parsed.value.targets).map(([name, target]): AlertTarget => ({ name, ...target }));
  const lines = targets.flatMap((target) => {
    const resolved = resolveTarget(target, readSecret);
    return 'error' in resolved ? [`targets.${target.name}.${resolved.error}`] : [];
  });
  return lines.length > 0 ? { lines } : { alerts: { pageUrl, repeatSeconds, targets } };
}

/** A target with its references read, and what hides their values in a text. */
interface ResolvedTarget {
  readonly target: AlertTarget;
  readonly mask: ReturnType<typeof maskerOf>;
}

/** Reads the references of a target; the error names the field and never a value. */
export function resolveTarget(
  target: AlertTarget,
  readSecret: SecretReader,
): ResolvedTarget | { readonly error: string } {
  const values: Record<string, string> = {};
  for (const field of ['url', 'secret', 'user', 'password'] as const) {
    const text: unknown = Reflect.get(target, field);
    if (typeof text !== 'string') continue;
    const read = resolveSecret(text, readSecret);
    if ('error' in read) return { error: `${field}: ${read.error}` };
    values[field] = read.value;
  }
  const { url, secret: key, password } = values;
  const problem = problemOf({ ...target, ...values } as AlertTarget);
  if (problem !== undefined) return { error: problem };
  // The path of the URL of a chat is its credential: the masker hides the parts of a URL too.
  const mask = maskerOf([url, key, password].filter((each) => each !== undefined));
  return { target: { ...target, ...values } as AlertTarget, mask };
}

function problemOf(target: AlertTarget): string | undefined {
  if (target.type === 'smtp') {
    if ((target.user === undefined) !== (target.password === undefined))
      return 'user: set user and password, or neither';
    if (target.password !== undefined && target.security === 'none') {
      return 'security: none would send the password in plain text; use starttls or tls';
    }
    return undefined;
  }
  const url = URL.canParse(target.url) ? new URL(target.url) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return 'url: is not an http(s) URL';
  if (url.username !== '' || url.password !== '')
    return 'url: contains a user name or password, which would not be sent';
  if (target.type === 'json' && !/^(whsec_)?[A-Za-z0-9+/]{32,}={0,2}$/.test(target.secret)) {
    return 'secret: is not a Standard Webhooks secret: whsec_ and the base64 of 24 to 64 random bytes';
  }
  return undefined;
}
