import leven from 'leven';
import { z } from 'zod';
import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { kindOf } from '../expressions/values.ts';
import { ENFORCEMENT_MODES } from '../model/manifest.ts';

/** An error in a manifest, or a warning about it. */
export interface ManifestIssue {
  readonly severity: 'error' | 'warning';
  readonly file: string;
  /** JSON path such as `triggers.github.inputs.webhookSlug`, as spelled in the file; empty for the file itself. */
  readonly path: string;
  /** Never contains the value of a secret. */
  readonly message: string;
  /** Position in the file, from 1; for an object or array, of its name. Absent if the text has no such place. */
  readonly line?: number;
  readonly column?: number;
  /** A warning that weakens a gate: an error if manifests are read strictly. */
  readonly weakensGate?: boolean;
  /** A gate that the manifest configures would be missing. */
  readonly skipsGate?: boolean;
}

/** An issue whose file is known from the context. */
export type Problem = Omit<ManifestIssue, 'file'>;

export function errorAt(path: JsonPath, message: string): Problem {
  return { severity: 'error', path: formatPath(path), message };
}

export function warningAt(path: JsonPath, message: string): Problem {
  return { severity: 'warning', path: formatPath(path), message };
}

export function gateWarningAt(path: JsonPath, message: string): Problem {
  return { severity: 'warning', path: formatPath(path), message, weakensGate: true };
}

export function plainTextSecret(path: JsonPath): Problem {
  return warningAt(path, 'contains a secret in plain text; env:NAME or file:PATH keeps it out of the manifest');
}

export function formatIssue(issue: ManifestIssue): string {
  const { line, column } = issue;
  const file = line === undefined ? issue.file : `${issue.file}:${line}:${column}`;
  const place = issue.path === '' ? file : `${file} ${issue.path}`;
  return `${issue.severity} ${place}: ${issue.message}`;
}

/** The path and its prefixes; a key in quotes can contain any number of dots. */
export function placesOn(path: string): string[] {
  const ends = [...path.matchAll(/\["[^"\\]*(?:\\.[^"\\]*)*"|[.[]/g)];
  return [...ends.map(({ index }) => path.slice(0, index)), path];
}

/** Whether the path is one of the places or inside of one. */
export function isWithin(path: string, places: ReadonlySet<string>): boolean {
  return placesOn(path).some((place) => places.has(place));
}

// No known name is longer, and computing the distance costs the product of both lengths.
const MAX_CHARACTERS = 100;
// A longer list belongs in the documentation.
const MAX_LISTED = 12;
// With more names than people keep in mind, each mistake would cost a look at all of them.
export const MAX_NAMES = 200;

/**
 * The most similar of the first known names, in any case; undefined if none is close: at most a third of the letters
 * may differ, or the name would be a guess.
 */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  const written = name.slice(0, MAX_CHARACTERS).toLowerCase();
  let nearest: string | undefined;
  let shortest = Math.floor(written.length / 3) + 1;
  let compared = 0;
  for (const candidate of known) {
    if (compared === MAX_NAMES) break;
    compared += 1;
    const distance = distanceBetween(written, candidate.toLowerCase());
    if (distance >= shortest) continue;
    shortest = distance;
    nearest = candidate;
  }
  return nearest;
}

/** Counts two swapped letters as one mistake. */
function distanceBetween(name: string, candidate: string): number {
  const distance = leven(name, candidate);
  const lettersOf = (text: string) => [...text].sort().join('');
  return distance === 2 && lettersOf(name) === lettersOf(candidate) ? 1 : distance;
}

/** Names from other tools, in lower case. The hint is the first of the names that is known at that place. */
const SAID_ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  call: ['HttpRequest'],
  dependson: ['runAfter'],
  depends_on: ['runAfter'],
  failure: ['Failed'],
  fetch: ['HttpRequest'],
  http: ['HttpRequest', 'webhook'],
  needs: ['runAfter'],
  print: ['LogMessage'],
  retries: ['retry', 'maxAttempts'],
  schedule: ['cron', 'cronExpression'],
  sleep: ['Delay'],
  uses: ['type'],
  verb: ['method'],
  with: ['inputs'],
};

/** Fewer common letters are a coincidence. */
const MIN_COMMON_LETTERS = 3;

/** The known name with the longest common beginning, of at least three fifths of the letters. */
function beginningAlike(written: string, known: readonly string[]): string | undefined {
  const names = known.map((name) => name.toLowerCase());
  // The beginning that all known names share, such as SLUICE_, does not count.
  const [first = '', ...others] = names;
  const shared = others.length === 0 ? 0 : Math.min(...others.map((other) => commonLetters(first, other)));
  if (!written.startsWith(first.slice(0, shared))) return undefined;
  const lengths = names.map((name) => commonLetters(written, name) - shared);
  const longest = Math.max(0, ...lengths);
  const least = Math.max(MIN_COMMON_LETTERS, Math.ceil((written.length - shared) * 0.6));
  return longest < least ? undefined : known[lengths.indexOf(longest)];
}

function commonLetters(a: string, b: string): number {
  let count = 0;
  while (count < a.length && a[count] === b[count]) count += 1;
  return count;
}

const OTHER_NAME = /^is ("(?:[^"\\]|\\.)*"), which is not the id of a flow$/;

/** Adds the ids of flows with this name if a name was written instead of an id. */
export function withIdsOfNames<Issue extends ManifestIssue>(
  issues: readonly Issue[],
  flows: readonly { readonly id?: string | undefined; readonly name: string }[],
): Issue[] {
  return issues.map((issue) => {
    const [, written] = OTHER_NAME.exec(issue.message) ?? [];
    if (written === undefined) return issue;
    const name = String(JSON.parse(written)).toLowerCase();
    const ids = flows.flatMap((flow) => (flow.name.toLowerCase() === name ? (flow.id ?? []) : [])).slice(0, MAX_LISTED);
    return ids.length === 0 ? issue : { ...issue, message: `${issue.message}; that flow's is ${ids.join(' or ')}` };
  });
}

// Nobody corrects more at once, and each costs a look at all known names.
const MAX_HINTS = 100;
let hintsLeft = Number.POSITIVE_INFINITY;

/** Runs `read` with hints for only the first unknown names. */
export function withFewHints<Result>(read: () => Result): Result {
  hintsLeft = MAX_HINTS;
  try {
    return read();
  } finally {
    hintsLeft = Number.POSITIVE_INFINITY;
  }
}

/** `; did you mean "webhookSlug"?`, or empty if no name is close, means the same elsewhere, or begins alike. */
export function didYouMean(name: string, known: readonly string[]): string {
  hintsLeft -= 1;
  if (hintsLeft < 0) return '';
  const written = name.slice(0, MAX_CHARACTERS).toLowerCase();
  const names = known.slice(0, MAX_NAMES);
  const same = Object.hasOwn(SAID_ELSEWHERE, written) ? (SAID_ELSEWHERE[written] ?? []) : [];
  const meant = nearestName(name, names) ?? same.find((each) => names.includes(each)) ?? beginningAlike(written, names);
  return meant === undefined ? '' : `; did you mean "${meant}"?`;
}

/** A hint must not suggest less protection than was meant. */
function isSafeToSuggest(value: string): boolean {
  return !ENFORCEMENT_MODES.some((mode) => mode === value && mode !== 'Enforce');
}

/** Message for a key that an object does not have; `elsewhere` names the place where it belongs. */
export function unknownKey(key: string, known: readonly string[], elsewhere?: string): string {
  const accepted = known.length <= MAX_LISTED && known.length > 0 ? `; known are ${known.join(', ')}` : '';
  return `is not known here${elsewhere ?? (didYouMean(key, known) || accepted)}`;
}

/** A schema error that names the kind of the value and the accepted values, but never the value itself. */
interface SchemaProblem {
  readonly path: JsonPath;
  readonly message: string;
  /** The path ends in a key that the schema does not have. */
  readonly isUnknownKey?: boolean;
}

type Parsed<Output> = { readonly value: Output } | { readonly problems: readonly SchemaProblem[] };

/** Parses with a schema and reports every problem; the schema's own messages win. */
export function parseWith<Output>(schema: z.ZodType<Output>, value: unknown): Parsed<Output> {
  const result = schema.safeParse(value, { error: describeIssue });
  if (result.success) return { value: result.data };
  return { problems: result.error.issues.flatMap((issue) => flatten(issue, namesOf(schema))) };
}

/** The keys of an object schema; empty for other schemas. */
export const namesOf = (schema?: z.ZodType) => (schema instanceof z.ZodObject ? Object.keys(schema.shape) : []);

const ACCEPTED: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
};

const FORMATS: Readonly<Record<string, string>> = {
  datetime: 'a time such as 2026-03-01T12:00:00Z',
  guid: 'a GUID such as 0f0c5a52-7d0e-4f6a-9d53-8c4f1d2e3b4a',
};

/** Says what is wrong with a value for schemas that do not say it themselves; for `safeParse`. */
export function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  const given = issue.input === undefined ? 'is missing' : `is ${kindOf(issue.input)}`;
  switch (issue.code) {
    case 'invalid_type':
      if (issue.expected === 'int' && typeof issue.input === 'number') return 'is not a whole number';
      return ACCEPTED[issue.expected] === undefined
        ? given
        : `${given}; ${ACCEPTED[issue.expected]} is accepted${writtenOut(issue.path?.at(-1), issue.input)}`;
    case 'invalid_value': {
      const values = issue.values.map(String).join(', ');
      if (typeof issue.input !== 'string') return `${given}; one of ${values} is accepted`;
      return `is not one of ${values}${didYouMean(issue.input, issue.values.map(String).filter(isSafeToSuggest))}`;
    }
    case 'too_small':
      return describeBound(issue, issue.inclusive === false ? 'more than' : 'at least', issue.minimum);
    case 'too_big':
      return describeBound(issue, issue.inclusive === false ? 'less than' : 'at most', issue.maximum);
    case 'invalid_format':
      return FORMATS[issue.format] === undefined ? undefined : `is not ${FORMATS[issue.format]}`;
    case 'invalid_key':
      return issue.issues[0]?.message;
    default:
      return undefined;
  }
}

/** Short forms that other tools accept, and the objects with the same meaning. */
const SHORT_FORMS: Readonly<Record<string, (given: unknown) => unknown>> = {
  runAfter: (given) => {
    const keys = [given].flat().filter((key): key is string => typeof key === 'string' && /^[\w-]{1,64}$/.test(key));
    return keys.length === 0 || keys.length > MAX_LISTED
      ? undefined
      : Object.fromEntries(keys.map((key) => [key, ['Succeeded']]));
  },
  retry: (given) => (Number(given) >= 1 ? { maxAttempts: Math.floor(Number(given)) } : undefined),
  coalesce: (given) => (typeof given === 'string' ? { key: given } : undefined),
};

/** `; write "retry": {"maxAttempts":3}` for a value that can be converted to an object; otherwise empty. */
export function writtenOut(field: PropertyKey | undefined, given: unknown): string {
  const meant = Object.hasOwn(SHORT_FORMS, field ?? '') ? SHORT_FORMS[String(field)]?.(given) : undefined;
  return meant === undefined ? '' : `; write "${String(field)}": ${JSON.stringify(meant)}`;
}

function describeBound(issue: { input?: unknown; origin: string }, bound: string, limit: number | bigint): string {
  if (issue.origin === 'number' || issue.origin === 'int') return `is out of range; ${bound} ${limit} is accepted`;
  const isEmpty = issue.input === '' || (Array.isArray(issue.input) && issue.input.length === 0);
  const unit = issue.origin === 'string' ? 'characters' : 'entries';
  return isEmpty ? 'is empty' : `is ${kindOf(issue.input)} of the wrong length; ${bound} ${limit} ${unit} are accepted`;
}

function flatten(issue: z.core.$ZodIssue, known: readonly string[]): SchemaProblem[] {
  const path = issue.path.map((key) => (typeof key === 'symbol' ? String(key) : key));
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({
      path: [...path, key],
      message: path.length === 0 ? unknownKey(key, known) : 'is not known here',
      isUnknownKey: true,
    }));
  }
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return [{ path, message: issue.message }];
  const fitting = issue.errors.find((branch) => !branch.some(isOfOtherKind));
  if (fitting !== undefined) {
    return fitting.flatMap((inner) => flatten({ ...inner, path: [...issue.path, ...inner.path] }, []));
  }
  const messages = issue.errors.flatMap((branch) => branch.filter(isOfOtherKind).map((inner) => inner.message));
  return [{ path, message: joinAlternatives(messages) ?? issue.message }];
}

function isOfOtherKind(issue: z.core.$ZodIssue): boolean {
  return issue.path.length === 0 && issue.code === 'invalid_type';
}

/** `is null; an array is accepted` and `is null; a string is accepted`: `is null; an array or a string is accepted`. */
function joinAlternatives(messages: readonly string[]): string | undefined {
  const [given] = messages[0]?.split('; ') ?? [];
  const accepted = messages.flatMap((message) => /; (.*) is accepted$/.exec(message)?.[1] ?? []);
  return accepted.length === 0 ? given : `${given}; ${[...new Set(accepted)].join(' or ')} is accepted`;
}
