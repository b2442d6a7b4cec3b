import { existsSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { errorAt, parseWith } from '../manifest/issues.ts';
import { otherKindOf } from '../manifest/read-file.ts';
import { readable } from '../model/error-kind.ts';
import { packageName } from '../version.ts';
import { AnswerTimeoutError, answerInTime } from '../webhooks/gates/operator-gate.ts';
import type { Extensions } from './api.ts';
import { runAs } from './extensions.ts';
import { SettingsError } from './settings.ts';

/** What a config module contains: settings by their names, and extensions, which need code. */
interface ConfigModule {
  readonly options: Readonly<Record<string, unknown>>;
  readonly extensions: Extensions;
}

/** Of files that can be imported; `.json` can only set options. */
const MODULE = /\.(?:[cm]?[jt]sx?|json)$/i;

const NAMES = ['sluice.config.ts', 'sluice.config.mts', 'sluice.config.js', 'sluice.config.mjs'];

/** A module can fetch secrets before it exports; if it takes longer than this, it will never finish. */
const LOAD_TIME_LIMIT_MS = 60_000;

/** Loads the module at `path`, or the first of the usual names in `folder`. Without a module the config is empty. */
export async function loadConfigModule(
  path: string | undefined,
  folder: string,
  limitMs = LOAD_TIME_LIMIT_MS,
): Promise<ConfigModule> {
  const file = path === undefined ? usualFile(folder) : resolve(folder, path);
  if (file === undefined) return { options: {}, extensions: {} };
  if (!existsSync(file)) throw new SettingsError([`SLUICE_CONFIG: the file "${path}" does not exist`]);
  // The importer would wait for data from a named pipe.
  const kind = otherKindOf(statSync(file));
  if (kind !== undefined) throw new SettingsError([`${file} is ${kind}, not a file`]);
  // An import of a file of variables would run it as code, and its error would quote what it contains.
  if (!MODULE.test(file)) {
    const instead = 'expected a file that ends in .ts, .mts, .js or .mjs';
    const variables = 'a file of variables is named with --env-file';
    throw new SettingsError([`SLUICE_CONFIG: "${path}" is not a config module; ${instead}. ${variables}`]);
  }
  const config = await importConfig(file, limitMs);
  try {
    return splitConfig(config, file);
  } catch (error) {
    throw error instanceof SettingsError ? error : notLoaded(file, error);
  }
}

function usualFile(folder: string): string | undefined {
  const files = NAMES.map((name) => resolve(folder, name)).filter(existsSync);
  const [file, other] = files;
  // Settings and gates of the second file would be ignored silently.
  if (other !== undefined)
    throw new SettingsError([`${files.join(', ')}: only one may be there; SLUICE_CONFIG names one`]);
  return file;
}

function notLoaded(file: string, thrown: unknown): SettingsError {
  const error = readable(thrown);
  return new SettingsError([`${file} does not load: ${error instanceof Error ? error.message : String(error)}`]);
}

async function importConfig(file: string, limitMs: number): Promise<unknown> {
  // Imports of this package yield the code of this process, wherever the config module is. Both are loaded only if
  // there is a config module.
  const [api, { createJiti }] = await Promise.all([import('./api.ts'), import('jiti')]);
  const virtualModules = { [packageName]: api };
  try {
    const importer = createJiti(import.meta.url, { virtualModules });
    const load = () => runAs('config module', () => importer.import(file, { default: true }));
    return await answerInTime(load, limitMs);
  } catch (thrown) {
    const error = readable(thrown);
    if (!(error instanceof AnswerTimeoutError)) throw notLoaded(file, error);
    const waited = `it has not finished after ${limitMs / 1000} s`;
    throw new SettingsError([
      `${file} does not load: ${waited}; look for an await, or a promise that it exports, that never ends`,
    ]);
  }
}

function splitConfig(config: unknown, file: string): ConfigModule {
  if (typeof config !== 'object' || config === null || Array.isArray(config)) {
    throw new SettingsError([`${file}: the default export is not an object; expected { port: 3000, handlers: [...] }`]);
  }
  const options: Record<string, unknown> = { ...config };
  const extensions: Record<string, unknown> = {};
  for (const name of Object.keys(CHECKS)) {
    if (name in options) extensions[name] = options[name];
    delete options[name];
  }
  const mistakes = Object.entries(CHECKS).flatMap(([name, check]) => check(extensions[name]));
  if (mistakes.length > 0) throw new SettingsError(mistakes.map((mistake) => `${file}: ${mistake}`));
  return { options, extensions: extensions as Extensions };
}

/** The field that names an extension, the method that it must have, and an example. */
interface ListForm {
  readonly name: string;
  readonly code: string | undefined;
  readonly example: string;
}

/** Checks of every extension, each with one line per mistake. No compiler checks a config module in JavaScript. */
const CHECKS: Readonly<Record<keyof Extensions, (given: unknown) => string[]>> = {
  handlers: (given) =>
    listMistakes('handlers', given, {
      name: 'type',
      code: 'run',
      example: "handlers: [defineHandler({ type: 'Greet', … })]",
    }),
  verifiers: (given) =>
    listMistakes('verifiers', given, {
      name: 'name',
      code: 'verify',
      example: "verifiers: [{ name: 'Acme', verify: … }]",
    }),
  signatureSpecs: (given) =>
    listMistakes('signatureSpecs', given, {
      name: 'name',
      code: undefined,
      example: "signatureSpecs: [{ name: 'Acme', headerName: … }]",
    }),
  gates: (given) =>
    listMistakes('gates', given, {
      name: 'name',
      code: 'prepare',
      example: "gates: [{ name: 'tenant', prepare: … }]",
    }),
  payloadStrategies: strategyMistakes,
  fetchFromPublisher: (given) =>
    given === undefined || typeof given === 'function'
      ? []
      : ['fetchFromPublisher is not a function; expected fetchFromPublisher: async (url) => text'],
};

function listMistakes(kind: keyof Extensions, list: unknown, { name, code, example }: ListForm): string[] {
  if (list === undefined) return [];
  if (!Array.isArray(list)) return [`${kind} is not an array; expected ${example}`];
  return list.flatMap((item: unknown, at) => {
    const place = `${kind}[${at}]`;
    if (!isRecord(item)) return [`${place} is not an object; expected ${example}`];
    if (typeof item[name] !== 'string' || item[name].trim() === '')
      return [`${place}.${name} is missing, or not a text`];
    if (code !== undefined && typeof item[code] !== 'function') return [`${place}.${code} is not a function`];
    if (kind === 'signatureSpecs') return specMistakes(item, `${place} "${item[name]}"`);
    return kind === 'handlers' ? handlerMistakes(item, place) : [];
  });
}

const text = z.string();
const texts = z.array(text);
const maybe = text.optional();
const flag = z.boolean().optional();
const bodyField = z.looseObject({ path: texts, formField: maybe });
/** Fields that some parts of what is signed cannot do without. */
const NEEDS = { field: ['field'], header: ['name'], headers: ['name', 'must'], query: ['name'], built: ['name'] };
const part = z
  .looseObject({ part: text, name: maybe, must: texts.optional(), field: bodyField.optional() })
  .superRefine((given, context) => {
    const needed = Object.entries(NEEDS).find(([name]) => name === given.part)?.[1] ?? [];
    for (const name of needed) {
      if (given[name] === undefined) context.addIssue({ code: 'custom', path: [name], message: 'is missing' });
    }
  });
const timestamp = z.discriminatedUnion('in', [
  z.looseObject({ in: z.literal('header') }),
  z.looseObject({ in: z.literal('signature'), valueKey: text }),
  z.looseObject({ in: z.literal('body'), field: bodyField }),
]);
const UNITS = ['seconds', 'milliseconds', 'detect', 'rfc3339', 'rfc3339Offset', 'httpDate'];
const SHORT_SPEC = z.looseObject({
  headerName: text,
  algorithm: text,
  encoding: text,
  prefix: maybe,
  signedPayloadStrategy: text,
});
/** What is read at the start and with each delivery; the registry checks what goes together. */
const FULL_SPEC = z.looseObject({
  aliases: texts.optional(),
  headers: z.array(
    z.looseObject({ signature: text, furtherSignatures: texts.optional(), timestamp: maybe, deliveryId: maybe }),
  ),
  signatureFields: z.array(bodyField).optional(),
  algorithm: text,
  encoding: text,
  prefix: maybe,
  isPrefixOptional: flag,
  alternatives: z.array(z.looseObject({ algorithm: text, prefix: text })).optional(),
  headerValuePrefix: maybe,
  multiValue: z
    .looseObject({
      delimiter: text,
      keyValueSeparator: maybe,
      setDelimiter: maybe,
      valueKeys: texts,
      acceptsMultiple: z.boolean(),
      isQuoted: flag,
      isTrimmed: flag,
    })
    .optional(),
  ed25519: z.looseObject({ valueKey: text, publicKeyPrefix: text, privateKeyPrefix: text }).optional(),
  get keyForm(): z.ZodType {
    return z.looseObject({ prefix: text, spec: FULL_SPEC }).optional();
  },
  get requestForm(): z.ZodType {
    return FULL_SPEC.optional();
  },
  signs: z.array(z.union([text, part])),
  timestamp: timestamp.and(z.looseObject({ unit: z.enum(UNITS) })).optional(),
  requiresTimestamp: flag,
});

/** One line for each field that is missing or of another kind; without `headers` and `signs`, a spec is meant in short. */
function specMistakes(spec: Record<string, unknown>, place: string): string[] {
  const isShort = 'headerName' in spec || (spec.headers === undefined && spec.signs === undefined);
  const read = parseWith<unknown>(isShort ? SHORT_SPEC : FULL_SPEC, spec);
  return 'value' in read
    ? []
    : read.problems.map(({ path, message }) => `${place}: ${errorAt(path, message).path} ${message}`);
}

function handlerMistakes({ inputs, secretInputs }: Record<string, unknown>, place: string): string[] {
  if (!isRecord(inputs) || typeof inputs.safeParse !== 'function') return [`${place}.inputs is not a zod schema`];
  return Array.isArray(secretInputs) ? [] : [`${place}.secretInputs is not an array; defineHandler fills it in`];
}

function strategyMistakes(strategies: unknown): string[] {
  if (strategies === undefined) return [];
  const example = 'expected payloadStrategies: { name: ({ delivery }) => bytes }';
  if (!isRecord(strategies) || Array.isArray(strategies)) return [`payloadStrategies is not an object; ${example}`];
  return Object.entries(strategies).flatMap(([name, builder]) =>
    typeof builder === 'function' ? [] : [`payloadStrategies.${name} is not a function; ${example}`],
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
