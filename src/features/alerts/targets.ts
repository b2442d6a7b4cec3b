import { z } from 'zod';
import { namesOf, parseWith, unknownKey } from '../../manifest/issues.ts';
import { readJsonFile } from '../../manifest/json-text.ts';
import { maskerOf } from '../../manifest/mask.ts';
import { resolveSecret, type SecretReader } from '../../manifest/read-secret.ts';
import { ATTENTION_KINDS, type AttentionKind, SEVERITIES, type Severity } from '../../model/attention.ts';

const EVENT_KINDS = ['run.failed', 'deploy.refused', 'access.widened', 'not_ready'] as const;
/** Left out: `run.failed` and `not_ready` report these, and sooner. */
const UNTOLD_KINDS = ['failed_runs', 'store_unavailable'] as const;
const isTold = (kind: AttentionKind): kind is Exclude<AttentionKind, (typeof UNTOLD_KINDS)[number]> =>
  !UNTOLD_KINDS.some((each) => each === kind);
const CONDITION_KINDS = ATTENTION_KINDS.filter(isTold);

/** Kinds of alerts that a target can receive. */
export const ALERT_KINDS = [...EVENT_KINDS, ...CONDITION_KINDS];
export type AlertKind = (typeof ALERT_KINDS)[number];

export const isAlertKind = (kind: AttentionKind): kind is (typeof CONDITION_KINDS)[number] => isTold(kind);

/** `attention` names all kinds of the attention list. */
const kindsOf = (names: readonly (AlertKind | 'attention')[]): AlertKind[] => [
  ...new Set(names.flatMap((name) => (name === 'attention' ? CONDITION_KINDS : [name]))),
];

const kinds = (byDefault: readonly (AlertKind | 'attention')[]) =>
  z
    .array(z.enum(['attention', ...ALERT_KINDS]))
    .min(1)
    .default([...byDefault])
    .transform(kindsOf);

const severities = <const Names extends readonly Severity[]>(names: Names) =>
  z
    .array(z.enum(names))
    .min(1)
    .default(['error', 'warning'] as Names[number][]);

const intervalSeconds = (byDefault: number) => z.number().min(1).max(86_400).default(byDefault);

const flows = {
  /** Ids or names; without a flow, an alert is then not sent. All flows if not given. */
  flows: z.array(z.string().min(1)).min(1).optional(),
};
const shared = {
  ...flows,
  kinds: kinds([...EVENT_KINDS, 'attention']),
  severities: severities(SEVERITIES),
  /** At most one message in this time; alerts in between are gathered. */
  intervalSeconds: intervalSeconds(60),
};
const secret = z.string().min(1);
const posted = { ...shared, url: secret };
/** Targets that call people: no notes, and no deploys that somebody let through. */
const pager = {
  ...flows,
  kinds: kinds(['run.failed', 'deploy.refused', 'not_ready', 'attention']),
  severities: severities(['error', 'warning']),
  intervalSeconds: intervalSeconds(5),
};

export const TARGET_TYPES = ['slack', 'teams', 'discord', 'json', 'pagerduty', 'opsgenie', 'smtp'] as const;

const targetSchema = z.discriminatedUnion(
  'type',
  [
    z.strictObject({ type: z.literal('slack'), ...posted }),
    z.strictObject({ type: z.literal('teams'), ...posted }),
    z.strictObject({ type: z.literal('discord'), ...posted }),
    z.strictObject({ type: z.literal('json'), ...posted, intervalSeconds: intervalSeconds(5), secret }),
    z.strictObject({
      type: z.literal('pagerduty'),
      ...pager,
      routingKey: secret,
      url: secret.default('https://events.pagerduty.com/v2/enqueue'),
    }),
    z.strictObject({
      type: z.literal('opsgenie'),
      ...pager,
      apiKey: secret,
      url: secret.default('https://api.opsgenie.com/v2/alerts'),
    }),
    z.strictObject({
      type: z.literal('smtp'),
      ...shared,
      host: z.string().regex(/^[\w.:-]+$/, 'is not a host name'),
      port: z.int().min(1).max(65_535).optional(),
      /** `starttls` upgrades the connection, and fails if the server cannot; `tls` begins encrypted. */
      security: z.enum(['starttls', 'tls', 'none']).default('starttls'),
      user: secret.optional(),
      password: secret.optional(),
      from: z.email('is not an address'),
      to: z.array(z.email('is not an address')).min(1).max(50),
    }),
  ],
  {
    error: ({ input }) =>
      `is ${Object(input).type === undefined ? 'missing; expected' : 'not'} one of ${TARGET_TYPES.join(', ')}`,
  },
);

const NO_NAME = 'is not a name of 1 to 64 letters, digits or any of ._-';

const fileSchema = z.strictObject({
  $schema: z.string().optional(),
  /** URL of the page for people, without a slash at its end. */
  pageUrl: z
    .url({ protocol: /^https?$/, error: 'is not an http(s) URL' })
    .transform((text) => text.replace(/\/+$/, ''))
    .optional(),
  /** The shortest time before an alert is repeated. */
  repeatSeconds: z.number().min(60).max(604_800).default(3600),
  targets: z.record(z.string().regex(/^[\w.-]{1,64}$/, NO_NAME), targetSchema),
});

/** A target and how to reach it; secrets as written, so mostly as references. */
export type AlertTarget = z.output<typeof targetSchema> & { readonly name: string };

type Program = Extract<AlertTarget, { type: 'json' | 'pagerduty' | 'opsgenie' }>;

/** Whether a target tracks the states of alerts itself: it gets a message for each that fires or ends. */
export function isProgram(target: AlertTarget): target is Program {
  return target.type === 'json' || target.type === 'pagerduty' || target.type === 'opsgenie';
}

/** All targets and what they share. */
export interface AlertSettings {
  readonly pageUrl: string | undefined;
  readonly repeatSeconds: number;
  readonly targets: readonly AlertTarget[];
}

type ParsedAlerts = { readonly alerts: AlertSettings } | { readonly lines: readonly string[] };

/**
 * Parses the setting: the path of a JSON file, or its content. Returns a line for each mistake, without secrets. All
 * references must be readable, but are kept as references: each attempt to send reads them again.
 */
export function readAlerts(given: unknown, readSecret: SecretReader): ParsedAlerts {
  if (typeof given !== 'string') return checkAlerts(given, readSecret);
  const file = readJsonFile(given, readSecret);
  return 'lines' in file ? file : checkAlerts(file.value, readSecret);
}

function checkAlerts(given: unknown, readSecret: SecretReader): ParsedAlerts {
  // A zod record drops this key without an error: the target would get no alert, and nobody would know why.
  if (Object.hasOwn(Object(Object(given).targets), '__proto__')) return { lines: [`targets.__proto__ ${NO_NAME}`] };
  const parsed = parseWith(fileSchema, withKinds(given));
  if ('problems' in parsed) {
    const lines = parsed.problems.map(({ path, message, isUnknownKey }) => {
      const [, name = '', key] = path;
      const isOfTarget = isUnknownKey && path.length === 3;
      return `${path.join('.') || 'the file'} ${isOfTarget ? unknownKey(String(key), fieldsOf(given, name)) : message}`;
    });
    return { lines };
  }
  const { pageUrl, repeatSeconds } = parsed.value;
  const targets = Object.entries(parsed.value.targets).map(([name, target]): AlertTarget => ({ name, ...target }));
  const lines = targets.flatMap((target) => {
    const resolved = resolveTarget(target, readSecret);
    return 'error' in resolved ? [`targets.${target.name}.${resolved.error}`] : [];
  });
  return lines.length > 0 ? { lines } : { alerts: { pageUrl, repeatSeconds, targets } };
}

/** The fields of a target of its type. */
function fieldsOf(given: unknown, name: PropertyKey): string[] {
  const { type } = Object(Object(Object(given).targets)[name]);
  return namesOf(targetSchema.options.find(({ shape }) => shape.type.value === type));
}

/** `events` is the earlier name of `kinds`. */
function withKinds(given: unknown): unknown {
  const { targets } = Object(given) as { targets?: unknown };
  if (typeof targets !== 'object' || targets === null || Array.isArray(targets)) return given;
  const renamed = Object.entries(targets).map(([name, target]) => {
    if (Object(target).events === undefined || Object(target).kinds !== undefined) return [name, target];
    const { events: kinds, ...rest } = target;
    return [name, { ...rest, kinds }];
  });
  return { ...Object(given), targets: Object.fromEntries(renamed) };
}

/** A target with its references read, and a masker that hides their values in texts. */
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
  for (const field of ['url', 'secret', 'routingKey', 'apiKey', 'user', 'password'] as const) {
    const text: unknown = Reflect.get(target, field);
    if (typeof text !== 'string') continue;
    const read = resolveSecret(text, readSecret);
    if ('error' in read) return { error: `${field}: ${read.error}` };
    values[field] = read.value;
  }
  const problem = problemOf({ ...target, ...values } as AlertTarget);
  if (problem !== undefined) return { error: problem };
  // The path of the URL of a chat is its credential: the masker hides the parts of a URL too.
  const { user: _user, ...secrets } = values;
  const mask = maskerOf(Object.values(secrets));
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
