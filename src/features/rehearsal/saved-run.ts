import { isDeepStrictEqual } from 'node:util';
import { secondOf } from '../../commands/lists.ts';
import { formatPath, type JsonPath, mapStrings } from '../../expressions/json-path.ts';
import { MAX_DEPTH } from '../../expressions/values.ts';
import { builtInHandlers } from '../../flows/handlers/index.ts';
import { CREDENTIAL_NAME, credentialsOf, MASK, maskerOf, maskUrl, queryOf } from '../../manifest/mask.ts';
import { URL_ENCODED_FORM } from '../../model/form.ts';
import { isJsonObject, isNestedDeeper, type Json, type JsonObject, own, parseJson } from '../../model/json.ts';
import { LOOP, RUN_FLOW } from '../../model/manifest.ts';
import type { StepErrorCode } from '../../model/run.ts';
import { parseRuntimeKey } from '../../model/runtime-keys.ts';
import { mayHoldSecret, REDACTED } from '../../webhooks/headers.ts';
import { SAYS_NOTHING } from './recorded.ts';
import type { RecordedRun, RecordedStep } from './recorded-run.ts';
import { type SavedTest, savedBody } from './saved-test.ts';

/** A test without its expectations. */
export type SavedRun = Omit<SavedTest, 'expected'>;

type PlacedStep = RecordedStep & { readonly path: string };

/** The steps of a run and of the runs that it started, with their paths in a test. */
export function stepsByPath({ steps, derived }: Pick<RecordedRun, 'steps' | 'derived'>, prefix = ''): PlacedStep[] {
  return [
    ...steps.map((step) => ({ ...step, path: `${prefix}${step.stepKey}` })),
    ...derived.flatMap((each) => stepsByPath(each.run, `${prefix}${each.prefix}`)),
  ];
}

/**
 * The parts of a run that a test saves, and the masked places: texts under the name of a credential (except names to
 * keep) and their copies elsewhere. `unread` lists places whose content has no names to check.
 */
export function savedRun(
  recorded: RecordedRun,
  keep: ReadonlySet<string>,
): { readonly run: SavedRun; readonly masked: readonly string[]; readonly unread: readonly string[] } {
  const { flowName, flowId, triggerKey, triggerType, startedAt, contentType, headers } = recorded;
  const steps = stepsByPath(recorded);
  const kept = Object.entries(headers)
    .filter(([name]) => !OF_THE_CONNECTION.has(name))
    .map(([name, value]) => [name, mayHoldSecret(name) ? REDACTED : value]);
  const about = { key: triggerKey, type: triggerType, contentType, headers: Object.fromEntries(kept) };
  const answers = steps
    .filter(isAnswered)
    .map((step) => [step.path, answersOf(step)] as const)
    .filter(([, given]) => given.length > 0);
  const credentials = new Credentials(keep);
  const body = savedBody(recorded.body);
  const trigger = credentials.without(['trigger'], body, contentType);
  const unread = [
    ...(body.base64 === undefined ? [] : ['trigger.base64']),
    ...(body.text === undefined || isForm(contentType) ? [] : ['trigger.text']),
  ];
  const given = answers.map(([path, each]): [string, typeof each] => [
    path,
    each.map((answer, at) => credentials.without(['answers', path, at], answer)),
  ]);
  const signals = signalsOf(steps).map(({ body, ...signal }, at) => ({
    ...signal,
    ...credentials.without(['signals', at], { body }),
  }));
  const run = {
    sluiceTest: 1,
    name: `${flowName}, ${secondOf(startedAt)}`,
    flow: flowId,
    startedAt,
    trigger: { ...about, ...credentials.withoutRepeats({ headers: about.headers, ...trigger }) },
    answers: credentials.withoutRepeats(Object.fromEntries(given)),
    signals: signals.map((signal) => ({ ...signal, ...credentials.withoutRepeats({ body: signal.body }) })),
  } as const;
  return { run, masked: credentials.places, unread };
}

const builtIn: ReadonlySet<string> = new Set([...builtInHandlers.map(({ type }) => type), LOOP, RUN_FLOW]);

/** Errors that no answer caused: the step or the service did not get that far. A repaired flow would not fail so. */
const UNASKED: ReadonlySet<string | undefined> = new Set([
  ...SAYS_NOTHING,
  ...([
    'expression_failed',
    'input_too_large',
    'invalid_input',
    'secret_not_kept',
    'unknown_handler',
    'when_failed',
  ] satisfies StepErrorCode[]),
]);

/** Whether the result of a step came from outside: from a host or from operator code. */
function isAnswered({ stepType }: PlacedStep): boolean {
  return !builtIn.has(stepType);
}

/** Headers of the connection, irrelevant to a flow: RFC 9110, 7.6.1. */
const OF_THE_CONNECTION: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding']);

function answersOf({ stepType, ...step }: PlacedStep): SavedTest['answers'][string] {
  const attempts = step.attempts.filter(({ status, error }) => status !== 'Running' && !UNASKED.has(error?.code));
  if (stepType !== 'HttpRequest') return attempts.map(({ output, error }) => answerOf(output, error));
  return attempts.map((attempt) => {
    const output = isJsonObject(attempt.output) ? withoutConnection(attempt.output) : attempt.output;
    // On replay, the step judges the answer itself, and adds the called URL to an error.
    if (attempt.error === null || attempt.error.code === 'unexpected_status') return { output };
    const message = attempt.error.message.replace(/ · [A-Z]+(?: \S+)?$/, '');
    return answerOf(output, { ...attempt.error, message });
  });
}

function answerOf(output: Json, error: RecordedStep['error']): SavedTest['answers'][string][number] {
  if (error === null) return { output };
  const { code, message, retryable } = error;
  return { ...(output !== null && { output }), error: { code, message, retryable } };
}

function withoutConnection(answer: JsonObject): JsonObject {
  const { headers } = answer;
  if (headers === undefined || !isJsonObject(headers)) return answer;
  const kept = Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name));
  return { ...answer, headers: Object.fromEntries(kept) };
}

function signalsOf(steps: readonly PlacedStep[]): SavedTest['signals'] {
  return steps
    .filter(({ stepType, status }) => stepType === 'WaitForSignal' && status === 'Succeeded')
    .toSorted((one, other) => (one.completedAt ?? '').localeCompare(other.completedAt ?? ''))
    .flatMap(({ path, stepKey, input, output }) => {
      const named = isJsonObject(input) ? own(input, 'signalName') : null;
      const name = named === undefined ? parseRuntimeKey(stepKey).localKey : named;
      return typeof name === 'string' ? [{ step: path, name, body: output }] : [];
    });
}

/** The object or list in a text, if the text is JSON. */
function heldJson(text: string): Json | undefined {
  if (!/^\s*[[{]/.test(text) || isNestedDeeper(text, MAX_DEPTH)) return undefined;
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function isForm(contentType: string | null | undefined): boolean {
  return contentType?.toLowerCase().startsWith(URL_ENCODED_FORM) === true;
}

/** Whether a credential is distinctive enough to mask it where no name marks it; a common word is not. */
function isRare(text: string): boolean {
  return text.length >= 16 || (text.length >= 8 && /\d/.test(text));
}

/** Members that hold the name in a name-value pair, as APIs list headers. */
const NAMES_VALUE = ['name', 'key'];

/**
 * Finds credentials by name: texts under a credential's name, at any depth; form fields; the value in a pair whose name
 * is such a text; and all of these in JSON inside a text.
 */
class Credentials {
  readonly places: string[] = [];
  readonly #keep: ReadonlySet<string>;
  readonly #found = new Set<string>();

  constructor(keep: ReadonlySet<string>) {
    this.#keep = keep;
  }

  /** Masks credentials in the fields. */
  without<Value extends object>(place: JsonPath, value: Value, contentType?: string | null): Value {
    const masked = mapStrings(value as unknown as Json, (text, path) => {
      const at = [...place, ...path];
      if (isForm(contentType) && path.length === 1 && path[0] === 'text') return this.#withoutFields(at, text);
      // Skip the first name: it is the field itself.
      return this.#isCredential(value as unknown as Json, path, 1)
        ? this.#masked(at, text, MASK)
        : this.#within(at, text);
    });
    return masked as unknown as Value;
  }

  /** Masks copies of the credentials found so far, in any encoding. Keys stay: the flow must find what it reads. */
  withoutRepeats<Value extends object>(value: Value): Value {
    const mask = maskerOf([...this.#found].filter(isRare));
    return mapStrings(value as unknown as Json, (text) => String(mask(text))) as unknown as Value;
  }

  #isCredential(value: Json, path: JsonPath, from: number): boolean {
    if (path.slice(from).some((key) => typeof key === 'string' && this.#isNamedSo(key))) return true;
    if (String(path.at(-1)).toLowerCase() !== 'value') return false;
    const pair = path.slice(0, -1).reduce<unknown>((at, key) => Reflect.get(Object(at), key), value);
    return Object.entries(Object(pair)).some(
      ([key, name]) => NAMES_VALUE.includes(key.toLowerCase()) && typeof name === 'string' && this.#isNamedSo(name),
    );
  }

  #isNamedSo(name: string): boolean {
    return CREDENTIAL_NAME.test(name) && !this.#keep.has(name.toLowerCase());
  }

  #masked(at: JsonPath, text: string, masked: string): string {
    if (text === '' || text === masked || text === REDACTED) return text;
    for (const found of /^https?:\/\//i.test(text) ? credentialsOf(text) : [text]) this.#found.add(found);
    // A step can have thousands of attempts and iterations, so they share one place.
    this.places.push(formatPath(at.map((key) => (typeof key === 'number' ? null : key.replace(/\.\d+\./g, '.*.')))));
    return masked;
  }

  #withoutFields(at: JsonPath, text: string): string {
    const fields = queryOf(text).map(({ name, value }) => {
      if (name === undefined) return value;
      const plain = new URLSearchParams(`${name}=${value}`);
      const [[key, decoded] = [name, value]] = plain;
      return this.#isNamedSo(key)
        ? `${name}=${this.#masked([...at, key], decoded, MASK)}`
        : `${name}=${this.#withinField([...at, key], { value, decoded })}`;
    });
    return fields.join('&');
  }

  /** Keeps the original spelling unless a part is masked. */
  #withinField(at: JsonPath, { value, decoded }: { readonly value: string; readonly decoded: string }): string {
    const masked = this.#within(at, decoded);
    return masked === decoded ? value : encodeURIComponent(masked);
  }

  #within(at: JsonPath, text: string): string {
    const held = heldJson(text);
    if (held === undefined) return this.#withoutQuery(at, text);
    const masked = mapStrings(held, (inner, path) => {
      const place = [...at, ...path];
      return this.#isCredential(held, path, 0) ? this.#masked(place, inner, MASK) : this.#within(place, inner);
    });
    return isDeepStrictEqual(masked, held) ? text : JSON.stringify(masked);
  }

  #withoutQuery(at: JsonPath, text: string): string {
    if (!/^https?:\/\//i.test(text) || credentialsOf(text).length === 0) return text;
    return this.#masked(at, text, maskUrl(text));
  }
}
