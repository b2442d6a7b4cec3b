import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { settingParts } from '../features/settings.ts';
import { isSecretEntry } from '../manifest/read-secret.ts';
import { joined } from '../model/joined.ts';
import { ENFORCEMENT_MODES } from '../model/manifest.ts';
import { flag, option, type SettingRow, type SettingRows, secret, wholeNumber } from './setting-row.ts';
import { readTokens, type TokenEntry } from './tokens.ts';

/** More than one process can take. */
const MAX_RATE = 1_000_000;
const rate = () =>
  z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\d+(\.\d+)?$/)
        .transform(Number),
    ])
    .pipe(z.number().positive().max(MAX_RATE));
/** Reads any case; in a config module, TypeScript checks and completes the spelling of the list. */
const oneOf = <const Names extends readonly [string, ...string[]]>(names: Names) =>
  z.preprocess(
    (value: Names[number]) =>
      names.find((name) => typeof value === 'string' && name.toLowerCase() === value.toLowerCase()) ?? value,
    z.enum(names),
  );
const list = (isEntry: (entry: string) => boolean) =>
  z
    .union([z.array(z.string()), z.string().transform((text) => (text === '' ? [] : text.split(',')))])
    .transform((entries) => entries.map((entry) => entry.trim()))
    .refine((entries) => entries.every(isEntry));

const isNetwork = (entry: string) => ipaddr.isValidCIDR(entry) || ipaddr.IPv6.isValid(entry) || isFullIpv4(entry);
const isFullIpv4 = (entry: string) => ipaddr.IPv4.isValidFourPartDecimal(entry);
const isHostName = (entry: string) => /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/i.test(entry) && entry.length <= 253;

const absoluteUrl = z
  .string()
  .transform((text) => text.replace(/\/+$/, ''))
  .refine((text) => text === '' || (/^https?:\/\//i.test(text) && URL.canParse(text) && !/[?#]/.test(text)))
  .transform((text) => (text === '' ? undefined : text));

const DAYS = [1, 3650] as const;
const SECONDS_A_YEAR = 31_536_000;

/** Relative to the working directory. */
export const DEFAULT_MANIFESTS = 'manifests';

const kernelRows = {
  host: option(z.string().min(1).default('127.0.0.1'), {
    variable: 'SLUICE_HOST',
    contents: 'open',
    replicas: 'own',
    accepts: 'a host name or an address to listen on',
    meaning:
      'Address that the service listens on. `HOST` is read if this is not set. Addresses other than loopback need dashboard credentials.',
  }),
  serviceName: option(
    z
      .string()
      .regex(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]{1,64}$/u)
      .transform((text) => text.trim())
      .refine((text) => text !== '')
      .default('Sluice'),
    {
      variable: 'SLUICE_SERVICE_NAME',
      contents: 'open',
      replicas: 'same',
      accepts: 'a name of at most 64 printable characters',
      meaning:
        'Name of this service, for people who have several: in alerts, in the title of each page, and in `sluice_build_info`. Services that send alerts to the same place need different names.',
    },
  ),
  port: wholeNumber([0, 65_535, '; 0 takes any free port'], (number) => number.default(3000), {
    variable: 'SLUICE_PORT',
    contents: 'open',
    replicas: 'own',
    meaning: 'Port that the service listens on. `PORT` is read if this is not set.',
  }),
  databaseUrl: option(
    z
      .string()
      .regex(/^(sqlite:.+|postgres(ql)?:\/\/.+)$/)
      .refine((text) => text.startsWith('sqlite:') || URL.canParse(text))
      .default('sqlite:data/sluice.db'),
    {
      variable: 'SLUICE_DATABASE_URL',
      contents: 'address',
      replicas: 'own',
      accepts:
        'sqlite:PATH, sqlite::memory: or postgres://USER:PASSWORD@HOST:PORT/DATABASE; or env:NAME or file:PATH that holds one of these',
      meaning:
        'Database: a SQLite file, or a PostgreSQL database (14 or newer) that several replicas can share. `sqlite::memory:` keeps everything in memory and loses it when the service stops. PostgreSQL on another machine needs `sslmode=verify-full`, or an explicit `sslmode=disable`.',
    },
  ),
  databaseDirectUrl: option(
    z
      .string()
      .regex(/^postgres(ql)?:\/\/.+$/)
      .refine((text) => URL.canParse(text))
      .optional(),
    {
      variable: 'SLUICE_DATABASE_DIRECT_URL',
      contents: 'address',
      replicas: 'own',
      accepts: 'postgres://USER:PASSWORD@HOST:PORT/DATABASE; or env:NAME or file:PATH that holds it',
      meaning:
        'Direct address of the same PostgreSQL database, for use when `SLUICE_DATABASE_URL` goes through a pooler such as PgBouncer. Migrations and notifications need it.',
    },
  ),
  databaseSchema: option(
    z
      .string()
      .regex(/^[a-z_][a-z0-9_]{0,62}$/)
      .default('sluice'),
    {
      variable: 'SLUICE_DATABASE_SCHEMA',
      contents: 'open',
      replicas: 'own',
      accepts: 'a name of at most 63 lower-case letters, digits and underscores',
      meaning: 'PostgreSQL schema that holds the tables.',
    },
  ),
  replicaName: option(
    z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$/)
      .optional(),
    {
      variable: 'SLUICE_REPLICA_NAME',
      contents: 'open',
      replicas: 'own',
      accepts: 'at most 100 letters, digits and - _ . :',
      meaning:
        'Name of this process among the replicas on one PostgreSQL database. Running replicas must have different names. A replica that restarts under the same name takes up its own steps at once. The default is host name and process id.',
    },
  ),
  manifests: option(z.string().min(1).default(DEFAULT_MANIFESTS), {
    variable: 'SLUICE_MANIFESTS',
    contents: 'open',
    replicas: 'own',
    accepts: 'the path of a folder',
    meaning: 'Folder that the manifests (`*.json`) are read from.',
  }),
  enforcementMode: option(oneOf(ENFORCEMENT_MODES).default('Off'), {
    variable: 'SLUICE_ENFORCEMENT_MODE',
    contents: 'open',
    replicas: 'access',
    accepts: 'Off, Audit or Enforce',
    meaning:
      'What happens when a gate fails: `Off` accepts the delivery and records the failure, `Audit` also logs and counts it, `Enforce` refuses the delivery. `webhookEnforcementMode` sets it for one trigger.',
  }),
  maxBodyBytes: wholeNumber([1, 268_435_456, ', in bytes'], (number) => number.default(1_048_576), {
    variable: 'SLUICE_MAX_BODY_BYTES',
    contents: 'open',
    replicas: 'same',
    meaning: 'Largest body of a delivery. A larger one gets 413 in every mode.',
  }),
  forwardedHeaderDepth: wholeNumber([0, 32], (number) => number.default(0), {
    variable: 'SLUICE_FORWARDED_HEADER_DEPTH',
    contents: 'open',
    replicas: 'access',
    meaning:
      'How many entries at the end of `X-Forwarded-For` name your own proxies, which is one less than the number of proxies. With one proxy leave it at 0 and set `SLUICE_TRUSTED_PROXIES`.',
  }),
  trustedProxies: option(list(isNetwork).default([]), {
    variable: 'SLUICE_TRUSTED_PROXIES',
    contents: 'open',
    replicas: 'access',
    accepts: 'addresses or CIDRs, separated by commas',
    meaning: 'Your own proxies. The client address is the last entry of `X-Forwarded-For` that is not one of them.',
  }),
  publicUrl: option(absoluteUrl.optional(), {
    variable: 'SLUICE_PUBLIC_URL',
    contents: 'open',
    replicas: 'same',
    accepts: 'an absolute http(s) URL without query or fragment, such as https://hooks.example.com',
    meaning:
      'Base URL that publishers call. Schemes that sign the URL need it, unless the trigger sets `webhookPublicUrl`.',
  }),
  replayToleranceSeconds: wholeNumber(
    [0, SECONDS_A_YEAR, ', in seconds; 0 for no check'],
    (number) => number.default(0),
    {
      variable: 'SLUICE_REPLAY_TOLERANCE_SECONDS',
      contents: 'open',
      replicas: 'access',
      meaning:
        'How far the timestamp of a delivery may differ from the clock. `webhookReplayToleranceSeconds` sets it for one trigger.',
    },
  ),
  nonceTtlSeconds: wholeNumber(
    [1, SECONDS_A_YEAR, ', in seconds, and no less than any tolerance'],
    (number) => number.default(86_400),
    {
      variable: 'SLUICE_NONCE_TTL_SECONDS',
      contents: 'open',
      replicas: 'access',
      meaning: 'How long the nonce of an accepted delivery is remembered.',
    },
  ),
  rateLimitPermitsPerSecond: option(rate().optional(), {
    variable: 'SLUICE_RATE_LIMIT_PERMITS_PER_SECOND',
    contents: 'open',
    replicas: 'access',
    accepts: `a number above 0 and at most ${MAX_RATE}, fractions allowed`,
    meaning: 'Deliveries a second that a flow accepts. Without it only triggers that set a rate have a limit.',
  }),
  rateLimitBurstSize: wholeNumber([1, MAX_RATE], (number) => number.optional(), {
    variable: 'SLUICE_RATE_LIMIT_BURST_SIZE',
    contents: 'open',
    replicas: 'access',
    meaning: 'Deliveries that may arrive at once. Without it, the rate rounded up.',
  }),
  rateLimitPerIp: option(flag().optional(), {
    variable: 'SLUICE_RATE_LIMIT_PER_IP',
    contents: 'open',
    replicas: 'access',
    accepts: 'true or false',
    meaning: 'Whether each client address has its own limit.',
  }),
  allowLegacySha1: option(flag().default(false), {
    variable: 'SLUICE_ALLOW_LEGACY_SHA1',
    contents: 'open',
    replicas: 'access',
    accepts: 'true or false',
    meaning: 'Whether schemes that sign with SHA-1 are accepted. `webhookAllowSha1` allows one trigger.',
  }),
  strictManifests: option(flag().default(false), {
    variable: 'SLUICE_STRICT_MANIFESTS',
    contents: 'open',
    replicas: 'same',
    accepts: 'true or false',
    meaning: 'Whether warnings about weak gates and keys are errors. Use it in production.',
  }),
  refusedDeploys: option(oneOf(['serve', 'fail']).default('serve'), {
    variable: 'SLUICE_REFUSED_DEPLOYS',
    contents: 'open',
    replicas: 'own',
    accepts: 'serve or fail',
    meaning:
      'What happens at start if a manifest is refused or cannot be read: `serve` starts with the deployed revision, `fail` does not start.',
  }),
  egressAllow: option(list((entry) => isNetwork(entry) || isHostName(entry)).default([]), {
    variable: 'SLUICE_EGRESS_ALLOW',
    contents: 'open',
    replicas: 'same',
    accepts: 'addresses, CIDRs or host names, separated by commas',
    meaning: 'What steps may call in addition to public addresses.',
  }),
  manifestSecrets: option(list(isSecretEntry).optional(), {
    variable: 'SLUICE_MANIFEST_SECRETS',
    contents: 'open',
    replicas: 'same',
    accepts:
      'env:NAME, with * and ? for any characters but in names of SLUICE_ variables, and file:FOLDER, separated by commas',
    meaning:
      'Secrets that manifests deployed over the API may refer to. If not set: `env:SECRET_*` and what the manifests in the folder use.',
  }),
  storeKey: option(secret().optional(), {
    variable: 'SLUICE_STORE_KEY',
    contents: 'secret',
    replicas: 'own',
    accepts: 'a key of any length, env:NAME or file:PATH',
    meaning:
      'Encrypts the stored bodies of refused deliveries, keys learned from publishers, and secrets in plain text in manifests.',
  }),
  deliveryStore: option(oneOf(['database', 'memory']).default('database'), {
    variable: 'SLUICE_DELIVERY_STORE',
    contents: 'open',
    replicas: 'own',
    accepts: 'database or memory',
    meaning: 'Where the delivery log is kept. `memory` keeps only the newest entries, until the process ends.',
  }),
  deliveryRingSize: wholeNumber([1, 100_000], (number) => number.default(1000), {
    variable: 'SLUICE_DELIVERY_RING_SIZE',
    contents: 'open',
    replicas: 'own',
    meaning: 'How many entries the delivery log keeps in memory.',
  }),
  deliveryRetentionDays: wholeNumber(DAYS, (number) => number.default(30), {
    variable: 'SLUICE_DELIVERY_RETENTION_DAYS',
    contents: 'open',
    replicas: 'same',
    meaning: 'How long records of deliveries are kept.',
  }),
  stepConcurrency: wholeNumber([1, 10_000], (number) => number.default(64), {
    variable: 'SLUICE_STEP_CONCURRENCY',
    contents: 'open',
    replicas: 'own',
    meaning: 'How many steps run at once. Flows take turns.',
  }),
  runRetentionDays: wholeNumber(DAYS, (number) => number.default(30), {
    variable: 'SLUICE_RUN_RETENTION_DAYS',
    contents: 'open',
    replicas: 'same',
    meaning: 'How long runs that have ended are kept.',
  }),
  dashboardUser: option(secret().optional(), {
    variable: 'SLUICE_DASHBOARD_USER',
    contents: 'private',
    replicas: 'same',
    isReadAgain: true,
    accepts: 'a name without a colon',
    problem: (name) =>
      name.includes(':') ? 'a colon ends the name in HTTP Basic; choose a name without one' : undefined,
    meaning: 'User name for the dashboard and its API. Set the password too.',
  }),
  dashboardPassword: option(secret().optional(), {
    variable: 'SLUICE_DASHBOARD_PASSWORD',
    contents: 'secret',
    replicas: 'same',
    isReadAgain: true,
    admits: 'credentials',
    accepts: 'a password, env:NAME or file:PATH',
    meaning: 'Password of that user.',
  }),
  dashboardToken: option(secret().optional(), {
    variable: 'SLUICE_DASHBOARD_TOKEN',
    contents: 'secret',
    replicas: 'same',
    isReadAgain: true,
    admits: 'credentials',
    accepts: 'a bearer token, env:NAME or file:PATH',
    meaning: 'Bearer token for the dashboard API, for scripts.',
  }),
  tokens: option(z.custom<readonly TokenEntry[]>().default([]), {
    variable: 'SLUICE_TOKENS',
    contents: 'private',
    replicas: 'same',
    isReadAgain: true,
    admits: 'credentials',
    read(given, read) {
      const found = readTokens(given, read);
      return 'tokens' in found ? { value: found.tokens } : found;
    },
    accepts:
      'the path of a JSON file with named tokens and groups: [{ "name", "token", "scopes", "flows" }, { "group", "scopes", "flows" }]',
    meaning:
      'Tokens of people and programs, and groups of people, with the scopes of each (`read`, `operate`, `deploy`, `metrics`) and the flows that it is limited to. Read again on reload.',
  }),
  dashboardAuth: option(oneOf(['none']).optional(), {
    variable: 'SLUICE_DASHBOARD_AUTH',
    contents: 'open',
    replicas: 'same',
    accepts: 'none',
    meaning: 'Opens the dashboard to anyone who can reach the listener.',
  }),
  logLevel: option(oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'), {
    variable: 'SLUICE_LOG_LEVEL',
    contents: 'open',
    replicas: 'own',
    accepts: 'trace, debug, info, warn, error, fatal or silent',
    meaning: 'Lowest level of log lines that are written.',
  }),
  drainSeconds: wholeNumber([0, 3600], (number) => number.default(5), {
    variable: 'SLUICE_DRAIN_SECONDS',
    contents: 'open',
    replicas: 'own',
    meaning:
      'How long a stopping replica on PostgreSQL keeps accepting after `GET /health/ready` answers 503, so that the load balancer can stop sending requests to it. A service on SQLite does not wait.',
  }),
  shutdownGraceSeconds: wholeNumber([0, 3600, ', in seconds'], (number) => number.default(10), {
    variable: 'SLUICE_SHUTDOWN_GRACE_SECONDS',
    contents: 'open',
    replicas: 'own',
    meaning: 'How long running steps may continue after a stop was requested.',
  }),
  vars: option(
    z
      .record(
        z.string().regex(/^[A-Za-z_]\w{0,63}$/),
        z.union([z.string(), z.number(), z.boolean()]).transform(String).pipe(z.string().max(4096)),
      )
      .optional(),
    {
      variable: 'SLUICE_VAR_NAME',
      contents: 'open',
      replicas: 'same',
      accepts:
        'a text of at most 4096 characters, under a name of at most 64 letters, digits and underscores that begins with no digit, such as SLUICE_VAR_REGION=eu',
      meaning:
        'Values that differ between environments and are not secret: expressions in steps read SLUICE_VAR_REGION as vars.REGION.',
    },
  ),
} satisfies SettingRows;

const rows = joined(kernelRows, settingParts);
type Rows = typeof rows;
type Schemas = { readonly [Name in keyof Rows]: Rows[Name] extends SettingRow<infer Schema> ? Schema : never };

/** All settings, of the kernel and of features. A config module sets the same options by name; the environment wins. */
export const settingsSchema = z.strictObject(
  Object.fromEntries(Object.entries(rows).map(([name, { schema }]) => [name, schema])) as Schemas,
);

export type Settings = z.output<typeof settingsSchema>;
/** What a config module can set; every option is optional. */
export type SettingsInput = z.input<typeof settingsSchema>;
export type SettingName = keyof Settings;

/** Checks of several settings together, which a feature adds. `features/settings-check.ts` lists them. */
export interface SettingsCheck {
  /** One line for each mistake; none counts if a setting that it read is wrong by itself. */
  mistakes(settings: Settings): readonly string[];
  /** What is accepted but protects nothing, or less than it seems to. */
  warnings(settings: Settings): readonly { readonly name: SettingName; readonly message: string }[];
}

/** All settings by name. */
export const SETTINGS: Readonly<Record<SettingName, SettingRow>> = rows;

interface SettingDescription extends Omit<SettingRow, 'schema'> {
  /** Name of the option in a config module. */
  readonly name: SettingName;
  /** As text; undefined if nothing applies until it is set. */
  readonly default: string | undefined;
}

const DESCRIBED = Object.entries(SETTINGS).map(([name, { schema, ...described }]): SettingDescription => {
  const byDefault = schema instanceof z.ZodDefault ? String(schema.def.defaultValue) : '';
  return { name: name as SettingName, ...described, default: byDefault || undefined };
});

/** Every option, for errors, `--help` and docs/settings.md. */
export const describeSettings = (): readonly SettingDescription[] => DESCRIBED;
