import { z } from 'zod';
import { formatPath, type JsonPath } from '../../expressions/json-path.ts';
import { decodeUtf8 } from '../../expressions/trigger-body.ts';
import { MAX_DEPTH } from '../../expressions/values.ts';
import { parseWith } from '../../manifest/issues.ts';
import { isJsonObject, isNestedDeeper, type Json, type JsonObject, own, parseJson } from '../../model/json.ts';
import { GUID, RUN_TRIGGER_TYPES } from '../../model/manifest.ts';
import type { RunTrigger } from '../../model/run.ts';

/** The first field of a file, so that files of other tools are not mistaken for tests. */
const MARK = 'sluiceTest';

const json = z.custom<Json>((value) => value !== undefined, 'is missing; any JSON is accepted');

const answerSchema = z.strictObject({
  output: json.optional(),
  error: z.strictObject({ code: z.string(), message: z.string(), retryable: z.boolean() }).optional(),
});

const triggerSchema = z
  .strictObject({
    key: z.string(),
    type: z.enum(RUN_TRIGGER_TYPES),
    contentType: z.string().nullable(),
    headers: z.record(z.string(), z.string()),
    body: json.optional(),
    text: z.string().optional(),
    base64: z.base64('is not base64').optional(),
  })
  .refine(({ body, text, base64 }) => [body, text, base64].filter((each) => each !== undefined).length <= 1, {
    error: 'has more than one of body, text and base64',
  });

const byPath = <Value extends z.ZodType>(value: Value) => z.record(z.string(), value);

/** A run saved as a test: its trigger, the answers to its calls, and its outcome. Steps are named by their paths. */
const testSchema = z.strictObject({
  [MARK]: z.literal(1, 'is not 1, the version of this format'),
  name: z.string().min(1),
  flow: z.string().regex(GUID, 'is not the id of a flow').toLowerCase(),
  startedAt: z.iso.datetime({ offset: true, error: 'is not a time such as 2026-03-01T12:00:00Z' }),
  trigger: triggerSchema,
  answers: byPath(z.array(answerSchema)).default({}),
  signals: z.array(z.strictObject({ step: z.string(), name: z.string().min(1), body: json })).default([]),
  /** Parts that are not named are not compared, unless none is named. */
  expected: z.strictObject({
    end: z.string().optional(),
    path: byPath(z.string()).optional(),
    requests: byPath(z.array(json)).optional(),
    waits: byPath(z.array(z.string())).optional(),
    outputs: byPath(json).optional(),
  }),
});
export type SavedTest = z.output<typeof testSchema>;

/** A mistake in a file, with its path inside the file; empty for the file itself. */
export interface TestProblem {
  readonly path: string;
  readonly message: string;
}

/** Undefined if the text is not a saved test, such as a file of another tool. */
export function readSavedTest(text: string): { test: SavedTest } | { problems: readonly TestProblem[] } | undefined {
  // A file left empty because its run could not be saved must not look like a passing test.
  if (text.trim() === '') return { problems: [{ path: '', message: 'is empty; was its run saved?' }] };
  let value: Json;
  try {
    value = parseJson(text.replace(/^\uFEFF/, ''));
  } catch {
    return new RegExp(`"${MARK}"`).test(text) ? { problems: [{ path: '', message: 'is not JSON' }] } : undefined;
  }
  if (!isJsonObject(value) || own(value, MARK) === undefined) return undefined;
  const parsed = parseWith(testSchema, value);
  const problems = 'value' in parsed ? hiddenKeys(value) : parsed.problems;
  if ('value' in parsed && problems.length === 0) return { test: parsed.value };
  return { problems: problems.map(({ path, message }) => ({ path: formatPath(path), message })) };
}

/** Keys that a plain object would lose, together with their answers and expectations. */
function hiddenKeys(test: JsonObject): { path: JsonPath; message: string }[] {
  const expected = own(test, 'expected') ?? null;
  const places: [JsonPath, Json | undefined][] = [
    [['answers'], own(test, 'answers')],
    ...Object.entries(Object(expected) as JsonObject).map(([name, value]): [JsonPath, Json] => [
      ['expected', name],
      value,
    ]),
  ];
  return places.flatMap(([path, value]) =>
    value !== undefined && isJsonObject(value) && Object.hasOwn(value, '__proto__')
      ? [{ path: [...path, '__proto__'], message: 'is not the path of a step' }]
      : [],
  );
}

/** The text of a test's file; the same test yields the same text. */
export function writeSavedTest(test: SavedTest): string {
  return `${JSON.stringify(test, null, 2)}\n`;
}

/** The trigger of the run, as steps read it. */
export function triggerOf({ key, contentType, headers, body, text, base64 }: SavedTest['trigger']): RunTrigger {
  const bytes =
    base64 !== undefined
      ? Buffer.from(base64, 'base64')
      : Buffer.from(text ?? (body === undefined ? '' : JSON.stringify(body)));
  const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return { key, contentType, headers: Object.fromEntries(lower), body: bytes };
}

/** A body in a file's format: JSON, else text, else base64. */
export function savedBody(bytes: Uint8Array): Pick<SavedTest['trigger'], 'body' | 'text' | 'base64'> {
  if (bytes.byteLength === 0) return {};
  const text = decodeUtf8(bytes);
  if (text === undefined) return { base64: Buffer.from(bytes).toString('base64') };
  // Expressions reject deeper nesting, and it could not be written back.
  if (isNestedDeeper(text, MAX_DEPTH)) return { text };
  try {
    return { body: parseJson(text) };
  } catch {
    return { text };
  }
}
