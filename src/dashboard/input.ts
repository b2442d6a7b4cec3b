import type { FastifyRequest, FastifySchemaCompiler } from 'fastify';
import { z } from 'zod';
import { HttpError } from '../errors.ts';
import { MAX_DEPTH } from '../expressions/values.ts';
import { describeIssue, didYouMean } from '../manifest/issues.ts';
import { NOT_UTF8, utf8Text } from '../manifest/read-file.ts';
import { isNestedDeeper, type Json, keepExactNumbers } from '../model/json.ts';
import { GUID } from '../model/manifest.ts';
import { readSearchKey, type SearchKeys } from '../model/search-keys.ts';
import { isStorableValue, UNSTORABLE } from '../model/text.ts';
import { millisecondsOf } from '../model/written-time.ts';
import type { TimeSpan } from '../store/store.ts';

/*
 * The building blocks of schemas for queries and paths. People write them, so each error names the given value and the
 * accepted ones. A blank parameter counts as absent, as forms send it. `meta` is shown in the OpenAPI document for text
 * that is read as a number or a boolean.
 */

const MAX_WHOLE_NUMBER = 2_147_483_647;

/** A query that repeats a parameter yields a list of texts; the body of a command can contain anything. */
const notText = (given: unknown): string =>
  Array.isArray(given)
    ? 'was given more than once; give it once'
    : `expected text, got ${given === null ? 'null' : typeof given}`;
const text = () => z.string({ error: ({ input }) => (input === undefined ? undefined : notText(input)) });

function refuse(context: z.RefinementCtx, given: string, accepted: string): never {
  context.addIssue({ code: 'custom', message: `${JSON.stringify(cut(given))} is not accepted; expected ${accepted}` });
  return z.NEVER;
}

const cut = (given: string) => (given.length > 80 ? `${given.slice(0, 80)}…` : given);

/** An optional parameter; `read` yields its value, or refuses it. */
const optional = <T>(read: (given: string, context: z.RefinementCtx) => T) =>
  text()
    .optional()
    .transform((given, context) => (given === undefined || given.trim() === '' ? undefined : read(given, context)));

const readGuid = (given: string, context: z.RefinementCtx) => {
  const guid = given.toLowerCase();
  return GUID.test(guid) ? guid : refuse(context, given, 'a GUID such as 0f0c5a52-7d0e-4f6a-9d53-8c4f1d2e3b4a');
};

/** A GUID in a path, in any case; converted to lower case. */
const guid = () => text().transform(readGuid).meta({ format: 'uuid' });

const optionalGuid = () => optional(readGuid).meta({ format: 'uuid' });

function readWholeNumber(given: string, min: number, max = MAX_WHOLE_NUMBER): number | undefined {
  const value = /^\d{1,10}$/.test(given) ? Number(given) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
}

interface WholeNumbers {
  readonly min: number;
  readonly max?: number;
  readonly fallback: number;
}

/** A whole number in the OpenAPI document. */
const shownAs = ({ min, max = MAX_WHOLE_NUMBER, fallback }: WholeNumbers) =>
  ({ type: 'integer', minimum: min, maximum: max, description: `${fallback} by default.` }) as const;

/** A whole number that is undefined if not given; its reader then uses `fallback`. */
const givenWholeNumber = (range: WholeNumbers) => {
  const { min, max = MAX_WHOLE_NUMBER } = range;
  const accepted = `a whole number from ${min} to ${max}`;
  return optional((given, context) => readWholeNumber(given, min, max) ?? refuse(context, given, accepted)).meta(
    shownAs(range),
  );
};

const wholeNumber = (range: WholeNumbers) =>
  givenWholeNumber(range)
    .transform((value) => value ?? range.fallback)
    .meta(shownAs(range));

const flag = () =>
  optional((given, context) => {
    const word = given.toLowerCase();
    if (word === 'true' || word === '1') return true;
    if (word === 'false' || word === '0') return false;
    return refuse(context, given, 'true or false');
  })
    .transform((value) => value ?? false)
    .meta({ type: 'boolean', description: 'false by default.' });

/** One of a closed list of names, in any case. */
const oneOf = <Name extends string>(names: readonly Name[]) =>
  optional(
    (given, context) =>
      names.find((name) => name.toLowerCase() === given.toLowerCase()) ??
      refuse(context, given, `one of ${names.join(', ')}`),
  ).meta({ enum: [...names] });

const FROM_1 = `a whole number from 1 to ${MAX_WHOLE_NUMBER}`;

/** An optional number from 1. */
const optionalNumber = () =>
  optional((given, context) => readWholeNumber(given, 1) ?? refuse(context, given, FROM_1)).meta({
    type: 'integer',
    minimum: 1,
    maximum: MAX_WHOLE_NUMBER,
  });

/** A number in a path, from 1. */
const positiveNumber = () =>
  text()
    .transform((given, context) => readWholeNumber(given, 1) ?? refuse(context, given, FROM_1))
    .meta({ type: 'integer', minimum: 1, maximum: MAX_WHOLE_NUMBER });

/** `order:SO-1010` */
const searchKeys = () =>
  optional(
    (given, context): SearchKeys =>
      readSearchKey(given) ?? refuse(context, given, 'a name, a colon and the whole value, such as order:SO-1010'),
  ).meta({
    examples: ['order:SO-1010'],
    description: 'A search key and its whole value, in any case. Searches the newest 3000 entries that have it.',
  });

/** Free text of at most `maxLength` characters. */
const freeText = (maxLength: number) =>
  optional((given, context) =>
    given.length <= maxLength ? given : refuse(context, given, `at most ${maxLength} characters`),
  ).meta({ maxLength });

/** Required free text; `accepted` describes it in the error. */
const requiredText = (maxLength: number, accepted: string) => {
  const missing = `is missing; expected ${accepted}`;
  return z
    .string({ error: ({ input }) => (input === undefined ? missing : notText(input)) })
    .transform((given, context) => {
      if (given.length > maxLength) return refuse(context, given, `at most ${maxLength} characters`);
      if (given.trim() !== '') return given;
      context.addIssue({ code: 'custom', message: missing });
      return z.NEVER;
    })
    .meta({ maxLength });
};

const ISO_TIME = z.union([z.iso.datetime({ offset: true }), z.iso.date()]);
const isoTimeOf = (given: string) => (ISO_TIME.safeParse(given).success ? Date.parse(given) : undefined);

/**
 * A time as ISO 8601 with an offset, as a date, which begins at midnight in UTC, or as milliseconds. Yields
 * milliseconds since the Unix epoch.
 */
const optionalTime = () =>
  optional((given, context) => {
    const at = /^\d{1,15}$/.test(given) ? millisecondsOf(given) : isoTimeOf(given);
    const accepted = 'a time such as 2026-03-01T12:00:00Z, a date such as 2026-03-01, or milliseconds since 1970';
    return at ?? refuse(context, given, accepted);
  }).meta({ type: 'string', format: 'date-time' });

/** The time span of a list: it includes `since` and excludes `until`. */
export const SPAN = {
  since: optionalTime().meta({
    description: 'At or after this time; ISO 8601, a date (midnight in UTC), or milliseconds since 1970.',
  }),
  until: optionalTime().meta({
    description: 'Before this time; ISO 8601, a date (midnight in UTC), or milliseconds since 1970.',
  }),
};

/** Includes built-in flows, which are hidden by default. */
export const BUILT_IN = {
  includeBuiltIn: flag().meta({
    description:
      'Includes the flow that sends alerts, which is built in, and its runs. false by default; a `flowId` that names it does so too.',
  }),
};

/** Refuses a span that ends before it begins; for `refine`. */
export const IN_ORDER: [check: (span: TimeSpan) => boolean, problem: { path: string[]; error: string }] = [
  ({ since, until }) => since === undefined || until === undefined || since <= until,
  { path: ['since'], error: 'must not be after until' },
];

/** Whether a time is within a span; null never is. */
export const isWithin = (at: number | null, { since, until }: TimeSpan): boolean =>
  (since === undefined && until === undefined) || (at !== null && at >= (since ?? at) && at < (until ?? Infinity));

/** How far back figures look, in hours. */
export const LOOK_BACK_HOURS: WholeNumbers = { min: 1, max: 720, fallback: 24 };
const lookBackHours = () => wholeNumber(LOOK_BACK_HOURS);

/** The kinds of parameters in paths and queries. */
export const parameter = {
  guid,
  optionalGuid,
  wholeNumber,
  givenWholeNumber,
  positiveNumber,
  optionalNumber,
  flag,
  oneOf,
  freeText,
  searchKeys,
  requiredText,
  optionalTime,
  lookBackHours,
};

export const ID_PARAMS = z.object({ id: guid() });

export const PAGING = {
  skip: wholeNumber({ min: 0, fallback: 0 }),
  take: wholeNumber({ min: 1, max: 500, fallback: 50 }),
  includeTotal: flag(),
};

/** Parses a part of a request with its zod schema; a mistake is a 400 that names each field. */
export const compileValidator: FastifySchemaCompiler<z.ZodType> = ({ schema }) => {
  const names = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  return (data: unknown) => {
    // A body is bytes here; its parser checks the texts in it.
    const given = Buffer.isBuffer(data) ? {} : ((data ?? {}) as Record<string, Json>);
    const hostile = Object.entries(given).find((entry) => !isStorableValue(entry));
    if (hostile !== undefined)
      return { error: new HttpError('invalid_request', `${JSON.stringify(cut(hostile[0]))}: ${UNSTORABLE}`) };
    const parsed = schema.safeParse(data, { error: describeIssue });
    if (parsed.success) return { value: parsed.data };
    return {
      error: new HttpError(
        'invalid_request',
        parsed.error.issues.flatMap((issue) => describe(issue, names)).join('; '),
      ),
    };
  };
};

function describe(issue: z.core.$ZodIssue, names: readonly string[]): string[] {
  if (issue.code !== 'unrecognized_keys') return [`${issue.path.join('.')}: ${issue.message}`];
  return issue.keys.map(cut).map((key) => {
    if (names.length === 0) return `${key}: there is no such query parameter; this operation takes none`;
    return `${key}: there is no such query parameter${didYouMean(key, names) || '.'} Known parameters are ${names.join(', ')}`;
  });
}

/** A mistake in a body, by its path from `body` on. */
function describeInBody(issue: z.core.$ZodIssue, names: readonly string[]): string[] {
  const path = ['body', ...issue.path].join('.');
  if (issue.code !== 'unrecognized_keys') return [`${path}: ${issue.message}`];
  const known = issue.path.length > 0 || names.length === 0 ? '' : ` Known fields are ${names.join(', ')}`;
  return issue.keys
    .map(cut)
    .map((key) => `${path}.${key}: there is no such field${didYouMean(key, names) || '.'}${known}`);
}

/**
 * The JSON of a request's body in the form for flows, numbers exact; undefined if the body is blank. It can contain any
 * text: it is stored as JSON, which escapes everything that cannot be stored as text.
 */
export function readJsonBody(request: FastifyRequest): Json | undefined {
  const json = parseRequest(request);
  if (json === undefined) return undefined;
  if (isNestedDeeper(json.text, MAX_DEPTH))
    throw new HttpError('invalid_request', `body: is nested deeper than ${MAX_DEPTH} levels`);
  return keepExactNumbers(json.value, json.text);
}

/** Bodies reach the routes as bytes. Others than UTF-8 would be read as other characters, also in a key. */
export function bodyText({ body }: FastifyRequest): string {
  if (!Buffer.isBuffer(body)) return '';
  const text = utf8Text(body);
  if (text === undefined) throw new HttpError('invalid_json', `body: ${NOT_UTF8}`);
  return text;
}

function parseRequest(request: FastifyRequest): { readonly value: Json; readonly text: string } | undefined {
  const text = bodyText(request);
  if (text.trim() === '') return undefined;
  try {
    return { value: JSON.parse(text), text };
  } catch {
    throw new HttpError('invalid_json', 'body: is not JSON');
  }
}

/** Parses the body with its schema; a blank one is `{}`. A mistake is a 400 that names each field. */
export function parseJsonBody<Schema extends z.ZodObject>(request: FastifyRequest, schema: Schema): z.output<Schema> {
  const json = parseRequest(request);
  // Clients without a reason send null too.
  const given = json === undefined || (json.value === null && (schema as z.ZodObject) === COMMAND) ? {} : json.value;
  if (!isStorableValue(given)) throw new HttpError('invalid_request', `body: ${UNSTORABLE}`);
  refuseBlanks(given);
  const parsed = schema.safeParse(given, { error: describeIssue });
  if (parsed.success) return parsed.data;
  const names = Object.keys(schema.shape);
  throw new HttpError(
    'invalid_request',
    parsed.error.issues.flatMap((issue) => describeInBody(issue, names)).join('; '),
  );
}

/** A blank filter in a query means none. In a command it is a mistake, such as an unset variable, and never all. */
function refuseBlanks(given: Json): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return;
  const blank = Object.entries(given).find(
    ([name, value]) => name !== 'reason' && typeof value === 'string' && value.trim() === '',
  );
  if (blank !== undefined)
    throw new HttpError('invalid_request', `body.${cut(blank[0])}: is blank; give a value, or leave it out`);
}

/** The longest stored reason. */
export const MAX_REASON = 500;

const reason = z.string().max(MAX_REASON).optional().describe('Why; kept in the activity.');

/** The body of a command that only has a reason. */
export const COMMAND = z.strictObject({ reason });

/** The reason as a query parameter, if the body is something else: a manifest, or a flow's input. */
export const WHY = { reason: freeText(MAX_REASON).meta({ description: 'Why; kept in the activity.' }) };

/** The body of a command: its own fields, and the reason. */
export type CommandBody = z.ZodObject<{ reason: z.ZodType<string | undefined> }, z.core.$strict>;

/**
 * The schema of a route whose handler parses the body: it accepts everything, and shows the shape of `schema` and an
 * example in the OpenAPI document.
 */
export function documentedBody(schema: z.ZodType, example: Json): z.ZodUnknown {
  const body = z.unknown();
  documentedBodies.set(body, { schema, example });
  return body;
}

/** Their shapes are made with the document: at a start they took 20 ms of CPU. */
export const documentedBodies = new WeakMap<object, { readonly schema: z.ZodType; readonly example: Json }>();
