import ipaddr from 'ipaddr.js';
import { z } from 'zod';
import { isSecretEntry } from '../manifest/read-secret.ts';
import { ENFORCEMENT_MODES } from '../model/manifest.ts';

/**
 * Everything an operator can set. The schema is the documentation: each option has the variable that sets it and, in
 * words, what is accepted. A config module may set the same options by their names here; the environment wins.
 */
const option = <Schema extends z.ZodType>(schema: Schema, variable: string, accepts: string) =>
  schema.meta({ variable, accepts });

const integer = (min: number, max: number) =>
  z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\d{1,16}$/)
        .transform(Number),
    ])
    .pipe(z.int().min(min).max(max));
const decimal = () =>
  z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\d+(\.\d+)?$/)
        .transform(Number),
    ])
    .pipe(z.number().positive().max(1_000_000));
const flag = () => z.union([z.boolean(), z.stringbool({ truthy: ['true', '1'], falsy: ['false', '0'] })]);
const oneOf = <const Names extends readonly [string, ...string[]]>(names: Names) =>
  z.preprocess(
    (value) => names.find((name) => typeof value === 'string' && name.toLowerCase() === value.toLowerCase()) ?? value,
    z.enum(names),
  );
const list = (isEntry: (entry: string) => boolean) =>
  z
    .union([z.array(z.string()), z.string().transform((text) => (text === '' ? [] : text.split(',')))])
    .transform((entries) => entries.map((entry) => entry.trim()))
    .refine((entries) => entries.every(isEntry));
const secret = () => z.string().min(1);

const isNetwork = (entry: string) => ipaddr.isValidCIDR(entry) || ipaddr.IPv6.isValid(entry) || isFullIpv4(entry);
const isFullIpv4 = (entry: string) => ipaddr.IPv4.isValidFourPartDecimal(entry);
const isHostName = (entry: string) => /^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/i.test(entry) && entry.length <= 253;

const absoluteUrl = z
  .string()
  .transform((text) => text.replace(/\/+$/, ''))
  .refine((text) => text === '' || (/^https?:\/\//i.test(text) && URL.canParse(text) && !/[?#]/.test(text)))
  .transform((text) => (text === '' ? undefined : text));

const DAYS = integer(1, 3650);
const SECONDS_A_YEAR = 31_536_000;

export const settingsSchema = z.strictObject({
  host: option(z.string().min(1).default('127.0.0.1'), 'SLUICE_HOST', 'a host name or an address to listen on'),
  port: option(integer(0, 65_535).default(3000), 'SLUICE_PORT', 'an integer from 0 to 65535; 0 takes any free port'),
  databaseUrl: option(
    z
      .string()
      .regex(/^sqlite:.+$/)
      .default('sqlite:data/sluice.db'),
    'SLUICE_DATABASE_URL',
    'sqlite:PATH or sqlite::memory: (this version has no PostgreSQL store)',
  ),
  manifests: option(z.string().min(1).default('manifests'), 'SLUICE_MANIFESTS', 'the path of a folder'),
  enforcementMode: option(oneOf(ENFORCEMENT_MODES).default('Off'), 'SLUICE_ENFORCEMENT_MODE', 'Off, Audit or Enforce'),
  maxBodyBytes: option(
    integer(1, 268_435_456).default(1_048_576),
    'SLUICE_MAX_BODY_BYTES',
    'an integer from 1 to 268435456, in bytes',
  ),
  forwardedHeaderDepth: option(
    integer(0, 32).default(0),
    'SLUICE_FORWARDED_HEADER_DEPTH',
    'an integer from 0 to 32: how many entries at the end of X-Forwarded-For name proxies of your own, which is one less than there are proxies; with one proxy leave it at 0 and set SLUICE_TRUSTED_PROXIES',
  ),
  trustedProxies: option(
    list(isNetwork).default([]),
    'SLUICE_TRUSTED_PROXIES',
    'addresses or CIDRs of your own proxies, separated by commas',
  ),
  publicUrl: option(
    absoluteUrl.optional(),
    'SLUICE_PUBLIC_URL',
    'an absolute http(s) URL without query or fragment, such as https://hooks.example.com',
  ),
  replayToleranceSeconds: option(
    integer(0, SECONDS_A_YEAR).default(0),
    'SLUICE_REPLAY_TOLERANCE_SECONDS',
    'an integer of seconds, 0 for no check',
  ),
  nonceTtlSeconds: option(
    integer(1, SECONDS_A_YEAR).default(86_400),
    'SLUICE_NONCE_TTL_SECONDS',
    'an integer of seconds from 1, and no less than any tolerance',
  ),
  rateLimitPermitsPerSecond: option(
    decimal().optional(),
    'SLUICE_RATE_LIMIT_PERMITS_PER_SECOND',
    'a number above 0, fractions allowed',
  ),
  rateLimitBurstSize: option(integer(1, 1_000_000).optional(), 'SLUICE_RATE_LIMIT_BURST_SIZE', 'an integer from 1'),
  rateLimitPerIp: option(flag().optional(), 'SLUICE_RATE_LIMIT_PER_IP', 'true or false'),
  allowLegacySha1: option(flag().default(false), 'SLUICE_ALLOW_LEGACY_SHA1', 'true or false'),
  strictManifests: option(flag().default(false), 'SLUICE_STRICT_MANIFESTS', 'true or false'),
  refusedDeploys: option(
    oneOf(['serve', 'fail']).default('serve'),
    'SLUICE_REFUSED_DEPLOYS',
    'serve, to start with the deployed revision where a changed manifest is refused, or fail, not to start',
  ),
  manifestsWin: option(
    flag().default(false),
    'SLUICE_MANIFESTS_WIN',
    'true or false: whether a start deploys a manifest of the folder that is older than the revision deployed over the API',
  ),
  watchManifests: option(
    flag().default(false),
    'SLUICE_WATCH_MANIFESTS',
    'true or false: whether changes in the folder of manifests are deployed at once',
  ),
  holdDeliveries: option(
    flag().default(false),
    'SLUICE_HOLD_DELIVERIES',
    'true or false: whether deliveries to a disabled or drained flow are kept until it starts runs again',
  ),
  egressAllow: option(
    list((entry) => isNetwork(entry) || isHostName(entry)).default([]),
    'SLUICE_EGRESS_ALLOW',
    'addresses, CIDRs or host names, separated by commas',
  ),
  manifestSecrets: option(
    list(isSecretEntry).optional(),
    'SLUICE_MANIFEST_SECRETS',
    'env:NAME, with * and ? for any characters, and file:FOLDER, separated by commas: what manifests deployed over the API may reference',
  ),
  storeKey: option(secret().optional(), 'SLUICE_STORE_KEY', 'a key of any length, env:NAME or file:PATH'),
  deliveryStore: option(
    oneOf(['database', 'memory']).default('database'),
    'SLUICE_DELIVERY_STORE',
    'database, or memory for the newest deliveries alone, until the process ends',
  ),
  deliveryRingSize: option(
    integer(1, 100_000).default(1000),
    'SLUICE_DELIVERY_RING_SIZE',
    'an integer from 1 to 100000',
  ),
  deliveryRetentionDays: option(DAYS.default(30), 'SLUICE_DELIVERY_RETENTION_DAYS', 'an integer from 1 to 3650'),
  refusedDeliveryRows: option(
    integer(1, 100_000_000).default(100_000),
    'SLUICE_REFUSED_DELIVERY_ROWS',
    'an integer from 1: how many records of refused deliveries are kept',
  ),
  refusedDeliveryBytes: option(
    integer(1, 1_099_511_627_776).default(268_435_456),
    'SLUICE_REFUSED_DELIVERY_BYTES',
    'an integer from 1, in bytes: how much of refused deliveries is kept, counting everything stored about them',
  ),
  heldDeliveryRows: option(
    integer(1, 100_000_000).default(100_000),
    'SLUICE_HELD_DELIVERY_ROWS',
    'an integer from 1: how many deliveries are held for disabled or drained flows; more get 503',
  ),
  heldDeliveryBytes: option(
    integer(1, 1_099_511_627_776).default(268_435_456),
    'SLUICE_HELD_DELIVERY_BYTES',
    'an integer from 1, in bytes: how much is held; more gets 503',
  ),
  stepConcurrency: option(
    integer(1, 10_000).default(64),
    'SLUICE_STEP_CONCURRENCY',
    'an integer from 1 to 10000: how many steps run at once',
  ),
  runRetentionDays: option(DAYS.default(30), 'SLUICE_RUN_RETENTION_DAYS', 'an integer from 1 to 3650'),
  dashboardUser: option(secret().optional(), 'SLUICE_DASHBOARD_USER', 'a name without a colon'),
  dashboardPassword: option(secret().optional(), 'SLUICE_DASHBOARD_PASSWORD', 'a password, env:NAME or file:PATH'),
  dashboardToken: option(secret().optional(), 'SLUICE_DASHBOARD_TOKEN', 'a bearer token, env:NAME or file:PATH'),
  dashboardAuth: option(
    oneOf(['none']).optional(),
    'SLUICE_DASHBOARD_AUTH',
    'none, to open the dashboard to anyone who can reach the listener',
  ),
  logLevel: option(
    oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    'SLUICE_LOG_LEVEL',
    'trace, debug, info, warn, error, fatal or silent',
  ),
  traceparent: option(
    oneOf(['continue', 'link']).default('continue'),
    'SLUICE_TRACEPARENT',
    'continue, to add spans to the sender’s trace, or link, to start a trace that links to it',
  ),
  shutdownGraceSeconds: option(
    integer(0, 3600).default(10),
    'SLUICE_SHUTDOWN_GRACE_SECONDS',
    'an integer of seconds: how long running steps may go on after a stop was requested',
  ),
});

export type Settings = z.output<typeof settingsSchema>;
/** What a config module may set; every option is optional. */
export type SettingsInput = z.input<typeof settingsSchema>;
export type SettingName = keyof Settings;

/** Every option with its variable and what it accepts, for errors and `--help`. */
export function describeSettings(): {
  name: SettingName;
  variable: string;
  accepts: string;
}[] {
  return Object.entries(settingsSchema.shape).map(([name, schema]) => {
    const { variable, accepts } = schema.meta() as {
      variable: string;
      accepts: string;
    };
    return { name: name as SettingName, variable, accepts };
  });
}
