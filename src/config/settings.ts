import ipaddr from 'ipaddr.js';
import type { z } from 'zod';
import { settingsChecks } from '../features/settings-check.ts';
import { didYouMean } from '../manifest/issues.ts';
import { maskRefusedUrl } from '../manifest/mask.ts';
import { allowsEverything, type SecretReader, secretReader } from '../manifest/read-secret.ts';
import { familiesCovered } from '../webhooks/networks/addresses.ts';
import { isPlaceholder, repeatsOneByte } from '../webhooks/weaknesses.ts';
import { hasCredentials, sharedBetween } from './credentials.ts';
import { databaseContradictions } from './database.ts';
import { describeSettings, SETTINGS, type SettingName, type Settings, settingsSchema } from './settings-schema.ts';
import { isGroup } from './tokens.ts';

/** The environment variables that Sluice reads. */
export type Environment = Readonly<Record<string, string | undefined>>;

export class SettingsError extends Error {
  /** One line per wrong setting. */
  readonly lines: readonly string[];
  constructor(lines: readonly string[], options?: ErrorOptions) {
    super(`The settings are not valid:\n${lines.map((line) => `  ${line}`).join('\n')}`, options);
    this.name = 'SettingsError';
    this.lines = lines;
  }
}

const REFUSED_LIMIT = 'records of refused deliveries may take 256 MiB';
const HELD_LIMIT = 'held deliveries may take 256 MiB';
/**
 * Former settings, by their name in a config module, and what replaced them. Such a name is accepted and ignored, so
 * that an upgrade does not stop a service. Ignoring it never lets in or deploys anything new.
 */
const RETIRED: Readonly<Record<string, { readonly variable: string; readonly instead: string }>> = {
  databasePrepare: {
    variable: 'SLUICE_DATABASE_PREPARE',
    instead: 'statements are not prepared by name where SLUICE_DATABASE_DIRECT_URL is another address',
  },
  refusedDeliveryRows: { variable: 'SLUICE_REFUSED_DELIVERY_ROWS', instead: REFUSED_LIMIT },
  refusedDeliveryBytes: { variable: 'SLUICE_REFUSED_DELIVERY_BYTES', instead: REFUSED_LIMIT },
  heldDeliveryRows: { variable: 'SLUICE_HELD_DELIVERY_ROWS', instead: HELD_LIMIT },
  heldDeliveryBytes: { variable: 'SLUICE_HELD_DELIVERY_BYTES', instead: HELD_LIMIT },
  maxBacklog: { variable: 'SLUICE_MAX_BACKLOG', instead: 'deliveries get 503 while more than 1000000 steps are due' },
  manifestsWin: {
    variable: 'SLUICE_MANIFESTS_WIN',
    instead: 'sluice deploy --allow rollback deploys an earlier revision on purpose',
  },
  watchManifests: {
    variable: 'SLUICE_WATCH_MANIFESTS',
    instead: 'sluice serve --watch deploys changes in the folder of manifests',
  },
  traceparent: { variable: 'SLUICE_TRACEPARENT', instead: "a delivery's spans belong to the trace of its sender" },
};
const VAR_PREFIX = 'SLUICE_VAR_';
/** Read elsewhere: the path of the config module itself. */
const CONFIG_VARIABLE = 'SLUICE_CONFIG';
/** Used if ours are unset, because platforms set them. */
const FALLBACKS: Readonly<Record<string, string>> = {
  SLUICE_HOST: 'HOST',
  SLUICE_PORT: 'PORT',
};

/** Yields the environment of the process; the only place that does. */
export function processEnvironment(): Environment {
  return process.env;
}

/** Sets variables of the process, and unsets those without a value. */
export function setVariables(variables: Environment): void {
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
}

/** Merges the environment over `config` and validates. Throws `SettingsError` with all mistakes. */
export function readSettings(environment: Environment, config: Readonly<Record<string, unknown>> = {}): Settings {
  const given: Record<string, unknown> = { ...config };
  for (const name of Object.keys(RETIRED)) delete given[name];
  const fromVariable = new Set<string>();
  for (const { name, variable } of describeSettings()) {
    const value = environment[variable] ?? (environment[FALLBACKS[variable] ?? ''] || undefined);
    if (value === undefined) continue;
    given[name] = value;
    fromVariable.add(name);
  }
  const vars = Object.entries(environment).filter(([name]) => name.startsWith(VAR_PREFIX));
  if (vars.length > 0) {
    const named = vars.map(([name, value]) => [name.slice(VAR_PREFIX.length), value]);
    given.vars = { ...Object(config.vars), ...Object.fromEntries(named) };
    for (const [name] of vars) fromVariable.add(name);
  }
  const read = secretReader({ env: environment, baseFolder: process.cwd() });
  const unread = [...resolveSecrets(given, read), ...readFiles(given, read)];
  const parsed = settingsSchema.safeParse(given);
  const issues = parsed.error?.issues ?? [];
  const wrong = new Set<unknown>([...unread.map(({ name }) => name), ...issues.map(({ path: [name] }) => name)]);
  const lines = [
    ...unknownVariables(environment),
    ...unread.map(({ line }) => line),
    ...issues.flatMap((issue) => describe(issue, given, fromVariable)),
  ];
  // What is right is judged too, so that one start tells of every mistake.
  const right = parsed.data ?? settingsSchema.parse(describeSettings().reduce<object>(withRight, {}));
  lines.push(...contradictions(right, { environment, wrong }));
  if (lines.length > 0 || !parsed.success) throw new SettingsError([...new Set(lines)]);
  return parsed.data;

  function withRight(all: object, { name }: { readonly name: SettingName }): object {
    return wrong.has(name) ? all : { ...all, [name]: given[name] };
  }
}

/** One line for each former setting that is set. */
export function retiredSettings(environment: Environment, config: Readonly<Record<string, unknown>> = {}): string[] {
  return Object.entries(RETIRED).flatMap(([name, { variable, instead }]) => {
    const given = environment[variable] === undefined ? [] : [variable];
    const names = name in config ? [...given, `${name} (config module)`] : given;
    return names.map((each) => `${each} is no longer a setting and is ignored: ${instead}`);
  });
}

/**
 * Whether OpenTelemetry has an exporter, and its sampler; its SDK reads the other variables itself. Throws
 * `SettingsError` for an address at which the SDK would throw, or that it would replace by localhost.
 */
export function tracingSettings(environment: Environment) {
  const names = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'];
  const name = names.find((each) => environment[each]?.trim());
  const address = name && environment[name]?.trim();
  const exporter = environment.OTEL_TRACES_EXPORTER?.trim() || 'otlp';
  const protocol = environment.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || environment.OTEL_EXPORTER_OTLP_PROTOCOL;
  const isGrpc = protocol === 'grpc';
  const isUrl = (text: string) =>
    isGrpc
      ? URL.canParse(/^\w{1,8}:\/\//.test(text) ? text : `https://${text}`)
      : /^https?:/i.test(text) && URL.canParse(text);
  if (address && exporter === 'otlp' && !isUrl(address)) {
    const accepted = isGrpc ? 'with the protocol grpc, HOST:PORT, ' : '';
    throw new SettingsError([
      `${name}: is not an address; ${accepted}http://HOST:PORT or https://HOST:PORT is accepted`,
    ]);
  }
  return {
    hasExporter: address !== undefined,
    sampler: environment.OTEL_TRACES_SAMPLER,
    samplerArgument: environment.OTEL_TRACES_SAMPLER_ARG,
    exporter,
    protocol,
  };
}

/** Path of the config module, if the operator named one. */
export function configPath(environment: Environment): string | undefined {
  return environment[CONFIG_VARIABLE] || undefined;
}

export function isLoopbackHost(host: string): boolean {
  if (host.toLowerCase() === 'localhost') return true;
  return ipaddr.isValid(host) && ipaddr.process(host).range() === 'loopback';
}

interface Unread {
  readonly name: SettingName;
  readonly line: string;
}

/** Replaces `env:NAME` and `file:PATH` by their values, and removes those that cannot be read, with one line each. */
function resolveSecrets(given: Record<string, unknown>, read: SecretReader): Unread[] {
  return describeSettings().flatMap(({ name, variable, contents }) => {
    const reference = given[name];
    const mayRefer = contents === 'secret' || contents === 'address';
    if (!mayRefer || typeof reference !== 'string' || !/^(env|file):/i.test(reference)) return [];
    const secret = read(reference);
    if ('value' in secret) given[name] = secret.value;
    else delete given[name];
    return 'error' in secret ? [{ name, line: `${variable}: ${secret.error}` }] : [];
  });
}

/** Replaces a file name, or file content, by the value that it holds; yields one line per mistake. */
function readFiles(given: Record<string, unknown>, read: SecretReader): Unread[] {
  return describeSettings().flatMap(({ name, variable, read: readGiven }) => {
    if (readGiven === undefined) return [];
    const text = given[name];
    delete given[name];
    if (text === undefined || text === '') return [];
    const found = readGiven(text, read);
    if ('lines' in found) return found.lines.map((line) => ({ name, line: `${variable}: ${line}` }));
    given[name] = found.value;
    return [];
  });
}

// A misspelt variable would silently leave a gate at its default; so would one in another case.
function unknownVariables(environment: Environment): string[] {
  const known = [CONFIG_VARIABLE, ...describeSettings().map((setting) => setting.variable)];
  const retired = Object.values(RETIRED).map(({ variable }) => variable);
  const names = Object.keys(environment);
  return names
    .filter((name) => /^sluice_(?!var_)/i.test(name) && ![...known, ...retired].includes(name) && !isReadAnyway(name))
    .map((name) => `${name}: no such setting${didYouMean(name.toUpperCase(), known)}`);

  /** Where variable names ignore case, as on Windows, the environment lists one spelling and accepts all. */
  function isReadAnyway(name: string): boolean {
    const upper = name.toUpperCase();
    return known.includes(upper) && !names.includes(upper) && environment[upper] !== undefined;
  }
}

function describe(
  issue: z.core.$ZodIssue,
  given: Readonly<Record<string, unknown>>,
  fromVariable: ReadonlySet<string>,
): string[] {
  if (issue.code === 'unrecognized_keys') {
    const names = describeSettings().map((setting) => setting.name);
    return issue.keys.map((key) => `${key} (config module): no such option${didYouMean(key, names)}`);
  }
  const name = String(issue.path[0]);
  const setting = describeSettings().find((candidate) => candidate.name === name);
  if (setting === undefined) return [issue.message];
  if (name === 'vars' && issue.path.length > 1) {
    const variable = `${VAR_PREFIX}${String(issue.path[1])}`;
    const place = fromVariable.has(variable) ? variable : `vars.${String(issue.path[1])} (config module)`;
    return [`${place}: is not accepted; expected ${setting.accepts}`];
  }
  const label = fromVariable.has(name) ? setting.variable : `${name} (config module)`;
  // The reason why one entry of a list was refused; for other settings the whole value shows it.
  const isTold = setting.tellsWhy === true && issue.code === 'custom' && !MAY_HOLD_CREDENTIAL.test(issue.message);
  const why = isTold ? `: ${issue.message}` : '';
  return [`${label}: ${shownValue(setting.name, given[name])} is not accepted; expected ${setting.accepts}${why}`];
}

// Matches user information, a query, a fragment, or anything but a port after a scheme and a host.
const MAY_HOLD_CREDENTIAL = /[@?#]|\/\/[^":=]*:(?!\d{1,5}[="])/;

/** The refused value for its error, without any part that could be a credential. */
function shownValue(name: SettingName, value: unknown): string {
  const { contents } = SETTINGS[name];
  if (contents === 'secret' || contents === 'private') return 'the value';
  const mask = (_key: string, inner: unknown) => (typeof inner === 'string' ? withoutCredentials(name, inner) : inner);
  return JSON.stringify(value, mask) ?? typeof value;
}

function withoutCredentials(name: string, text: string): string {
  return /url$/i.test(name) || /\/\/|@/.test(text) ? maskRefusedUrl(text) : text;
}

/** One line for each mistake in settings that fit their schemas, but not each other; without what a wrong one decides. */
function contradictions(
  settings: Settings,
  { environment, wrong }: { readonly environment: Environment; readonly wrong: ReadonlySet<unknown> },
): string[] {
  const ofOne = describeSettings().map(({ name, variable, problem }) => (given: Settings) => {
    const why = given[name] === undefined ? undefined : problem?.(given[name]);
    return why === undefined ? [] : [`${variable}: ${why}`];
  });
  const ofAll = [...CHECKS, ...ofOne, ...settingsChecks.map(({ mistakes }) => mistakes)];
  return ofAll.flatMap((check) => {
    let isJudged = true;
    const watched = new Proxy(settings, {
      get(all, name: SettingName) {
        if (wrong.has(name)) isJudged = false;
        return all[name];
      },
    });
    const lines = check(watched, environment);
    return isJudged ? lines : [];
  });
}

/** Mistakes in what several settings say together. What one of them reads is what decides it. */
const CHECKS: readonly ((settings: Settings, environment: Environment) => readonly string[])[] = [
  ({ replayToleranceSeconds: tolerance, nonceTtlSeconds: ttl }) =>
    tolerance <= ttl
      ? []
      : [
          `SLUICE_NONCE_TTL_SECONDS: ${ttl} is shorter than SLUICE_REPLAY_TOLERANCE_SECONDS=${tolerance}: a delivery ` +
            'would pass again once its nonce is gone; raise the first or lower the second',
        ],
  ({ dashboardUser, dashboardPassword }) =>
    (dashboardUser === undefined) === (dashboardPassword === undefined)
      ? []
      : ['SLUICE_DASHBOARD_USER, SLUICE_DASHBOARD_PASSWORD: set both or neither'],
  sharedBetween,
  ({ tokens }) =>
    tokens.some(isGroup) && !describeSettings().some(({ admits }) => admits === 'people')
      ? ['SLUICE_TOKENS: names groups, but nothing in this build says who is of one']
      : [],
  (settings) =>
    hasCredentials(settings) || settings.dashboardAuth !== undefined || isLoopbackHost(settings.host)
      ? []
      : [
          `SLUICE_HOST: "${settings.host}" can be reached from other machines and the dashboard has no credentials; set ` +
            'SLUICE_DASHBOARD_TOKEN, or SLUICE_DASHBOARD_USER and SLUICE_DASHBOARD_PASSWORD, or set SLUICE_DASHBOARD_AUTH=none on purpose',
        ],
  (settings) =>
    settings.dashboardAuth !== undefined && hasCredentials(settings)
      ? ['SLUICE_DASHBOARD_AUTH: none contradicts the dashboard credentials that are set; remove one of the two']
      : [],
  databaseContradictions,
];

const SECONDS_A_DAY = 86_400;
/** A password can be shorter because people have to type it. */
const MIN_SECRET_BYTES = { dashboardPassword: 12, dashboardToken: 16, storeKey: 16 } as const;

/** A setting that only makes sense behind a proxy or a tunnel. */
function settingOfProxy({ publicUrl, trustedProxies, forwardedHeaderDepth }: Settings): SettingName | undefined {
  if (trustedProxies.length > 0) return 'trustedProxies';
  if (forwardedHeaderDepth > 0) return 'forwardedHeaderDepth';
  return publicUrl === undefined || isLoopbackHost(new URL(publicUrl).hostname.replace(/^\[|\]$/g, ''))
    ? undefined
    : 'publicUrl';
}

/** One line for each setting that is accepted but protects nothing, or less than it seems to. */
export function settingsWarnings(settings: Settings): string[] {
  const lines: string[] = [];
  const { forwardedHeaderDepth: depth, trustedProxies } = settings;
  if (depth > 0 && trustedProxies.length === 0) {
    lines.push(
      `warning SLUICE_FORWARDED_HEADER_DEPTH=${depth} takes the entry before the last ${depth} of X-Forwarded-For as the client address, ` +
        `which is correct behind ${depth + 1} proxies of your own: a client that passes through fewer of them writes that ` +
        'entry itself and so chooses its address; set SLUICE_TRUSTED_PROXIES too',
    );
  }
  const tell = (name: SettingName, message: string) => lines.push(`warning ${variableOf(name)}: ${message}`);
  if (settings.rateLimitPermitsPerSecond === undefined) {
    const message =
      'limits nothing by itself: without SLUICE_RATE_LIMIT_PERMITS_PER_SECOND it applies only to triggers that set webhookRateLimitPermitsPerSecond';
    if (settings.rateLimitBurstSize !== undefined) tell('rateLimitBurstSize', message);
    if (settings.rateLimitPerIp === true) tell('rateLimitPerIp', message);
  }
  if (settings.replayToleranceSeconds > SECONDS_A_DAY) {
    const message = 'is more than a day: a captured delivery passes for that long after its nonce expires';
    tell('replayToleranceSeconds', message);
  }
  for (const { name, message } of settingsChecks.flatMap((check) => check.warnings(settings))) tell(name, message);
  const proxy = settingOfProxy(settings);
  if (proxy !== undefined && !hasCredentials(settings) && settings.dashboardAuth === undefined) {
    tell(
      proxy,
      'means that a proxy is in front, but the dashboard has no credentials: a proxy that adds no header, such as nginx ' +
        'since 1.29.7, lets everyone in with full access; set SLUICE_DASHBOARD_TOKEN',
    );
  }
  if (familiesCovered(settings.trustedProxies).length > 0) {
    tell('trustedProxies', 'includes every public address: any client can choose the address that Sluice sees');
  }
  if (familiesCovered(settings.egressAllow).length > 0) {
    tell(
      'egressAllow',
      'includes every public address, which also allows private ones: steps can reach your own network',
    );
  }
  if (allowsEverything(settings.manifestSecrets ?? [])) {
    tell(
      'manifestSecrets',
      'allows every variable, or every file: anyone who may deploy can read all secrets of the process',
    );
  }
  for (const [name, minBytes] of Object.entries(MIN_SECRET_BYTES) as [keyof typeof MIN_SECRET_BYTES, number][]) {
    const text = settings[name];
    if (text === undefined) continue;
    if (isPlaceholder(text)) tell(name, 'is a placeholder that anyone can guess: replace it by a secret');
    else if (Buffer.byteLength(text) < minBytes) tell(name, `has fewer than ${minBytes} bytes: it can be guessed`);
    else if (repeatsOneByte(Buffer.from(text))) tell(name, 'repeats one byte, which anyone can guess');
    else if (text.trim() !== text) tell(name, 'begins or ends with white space, which counts as part of it');
  }
  return lines;
}

function variableOf(name: SettingName): string {
  return describeSettings().find((setting) => setting.name === name)?.variable ?? name;
}
