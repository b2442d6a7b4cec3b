import { copyOf, REASON_CODES } from '../../model/delivery.ts';
import { readable } from '../../model/error-kind.ts';
import {
  type Evidence,
  type Gate,
  GateConfigurationError,
  type GatePlugin,
  type GateSettings,
  type Verdict,
  type WebhookTrigger,
} from '../gate.ts';

/**
 * Wraps an operator's gate so that the chain can rely on it: it has the name of its plugin and answers in time. If it
 * cannot be prepared, the manifest does not load, and the error names the gate.
 */
export function operatorGate<Settings extends GateSettings>(plugin: GatePlugin<Settings>): GatePlugin<Settings> {
  const { name } = plugin;
  return {
    name,
    prepare(trigger, settings) {
      const gate = prepared(plugin, () => plugin.prepare(trigger, settings));
      if (gate === undefined) return undefined;
      const { isExpensive, check, dryRun } = gate;
      const held = (judge: Gate['check']): Gate['check'] => {
        const limitMs = settings.verifierTimeLimitMs;
        return (delivery, evidence) =>
          answerInTime(
            async () => verdictIn(await judge(copyOf(delivery), structuredClone(evidence)), trigger),
            limitMs,
          );
      };
      return { name, isExpensive, check: held(check), ...(dryRun === undefined ? {} : { dryRun: held(dryRun) }) };
    },
  };
}

function prepared({ name }: { readonly name: string }, prepare: () => unknown): Omit<Gate, 'name'> | undefined {
  try {
    const gate = prepare();
    if (gate === undefined || gate === null) return undefined;
    const { isExpensive, check, dryRun } = Object(gate);
    // Plain JavaScript may return anything.
    if ([check, dryRun ?? check].every((method) => typeof method === 'function')) {
      const bound = { isExpensive: isExpensive === true, check: check.bind(gate) };
      return dryRun === undefined ? bound : { ...bound, dryRun: dryRun.bind(gate) };
    }
  } catch (thrown) {
    const error = readable(thrown);
    if (error instanceof GateConfigurationError) throw error;
    throw new GateConfigurationError(
      undefined,
      `${failureOf(`the gate "${name}"`, error)} in prepare${placeOf(error)}`,
    );
  }
  // A gate that is missing by mistake must not look like one that the trigger does not configure.
  const message = `the gate "${name}" is not usable: prepare must return { name, check } or nothing, and not a promise`;
  throw new GateConfigurationError(undefined, message);
}

/**
 * Reads and copies a verdict as soon as it settles, so that later changes by the gate do not count. Throws if the
 * evidence cannot be kept.
 */
function verdictIn(given: Verdict, { keys }: Pick<WebhookTrigger, 'keys'>): Verdict {
  const { passed, reason, detail, evidence } = Object(given);
  const told = { passed, reason, ...(detail !== undefined && { detail: sentenceOf(detail, keys) }) };
  return evidence === undefined ? told : { ...told, evidence: evidenceIn(evidence) };
}

// A reason is a sentence; a longer text is a dump of data.
const MAX_REASON_LENGTH = 200;

/** The operator code's text about a refusal, without the keys that the code was given. */
export function sentenceOf(
  said: unknown,
  { current = '', previous = '', others = [] }: WebhookTrigger['keys'],
): string {
  // The longest first: if a key contains another one, part of it would remain.
  const keys = [current, previous, ...others].filter((key) => key !== '').sort((a, b) => b.length - a.length);
  return keys.reduce((text, key) => text.replaceAll(key, '***'), String(said)).slice(0, MAX_REASON_LENGTH);
}

type Test = (value: unknown) => boolean;
const isText: Test = (value) => typeof value === 'string';
const isNumber: Test = (value) => typeof value === 'number';
const isBoolean: Test = (value) => typeof value === 'boolean';
const hasAll = (tests: Readonly<Record<string, Test>>): Test => {
  const all = Object.entries(tests);
  return (value) => all.every(([name, test]) => test(Object(value)[name]));
};

/** The form of evidence that the chain, the acceptance and the record rely on. */
const FORMS: Readonly<Record<keyof Evidence, Test>> = {
  scheme: isText,
  usedPreviousKey: isBoolean,
  otherKey: isNumber,
  isVerified: isBoolean,
  isOneOfSeveral: isBoolean,
  signedTimestamp: hasAll({ text: isText, ms: isNumber }),
  signedBytesSha256: isText,
  verifiedHeaders: (value) => value instanceof Map && [...value].flat().every(isText),
  lacksTimestampWithSignature: (value) => value === true,
  replaySkewMs: isNumber,
  retryAfterMs: isNumber,
  nonce: hasAll({
    header: isText,
    value: isText,
    digest: isText,
    covers: (value) => value === undefined || hasAll({ rule: isText, bodySha256: isText })(value),
    lifeMs: Number.isFinite,
  }),
  refusedFor: (value) => Array.isArray(value) && value.every((reason) => REASON_CODES.includes(reason)),
  facts: (value) => Object.values(Object(value)).every((of) => typeof of === 'object' && of !== null),
};

function evidenceIn(given: Evidence): Evidence {
  const evidence = structuredClone(given);
  const isFit = ([name, test]: [string, Test]) => {
    const value: unknown = Reflect.get(Object(evidence), name);
    return value === undefined || test(value);
  };
  if (!Object.entries(FORMS).every(isFit)) throw new TypeError('the evidence of a gate has another form');
  // A delivery's record can only hold JSON.
  return evidence?.facts === undefined ? evidence : { ...evidence, facts: JSON.parse(JSON.stringify(evidence.facts)) };
}

/** Where an error was thrown; its message may quote a key. */
function placeOf(error: unknown): string {
  const [, place] = /\n\s+at [^\n]*?((?:file:\/\/)?\/[^\n()]+:\d+:\d+)\)?/.exec((error as Error)?.stack ?? '') ?? [];
  return place === undefined ? '' : `, at ${place}`;
}

/** Publishers wait three to thirty seconds for an answer, and each waiting delivery holds its body in memory. */
const ANSWER_TIME_LIMIT_MS = 5000;

/** An operator's verifier or gate did not answer in time. */
export class AnswerTimeoutError extends Error {
  constructor(limitMs: number) {
    super(`gave no answer within ${limitMs / 1000} s`);
    this.name = 'AnswerTimeoutError';
  }
}

/**
 * Calls the operator's code and rejects with `AnswerTimeoutError` at the time limit, when the signal also aborts. A
 * later answer is ignored. Code that blocks the thread cannot be interrupted.
 */
export async function answerInTime<Result>(
  ask: (signal: AbortSignal) => Result | Promise<Result>,
  limitMs = ANSWER_TIME_LIMIT_MS,
): Promise<Result> {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const timeIsUp = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = new AnswerTimeoutError(limitMs);
      reject(error);
      controller.abort(error);
    }, limitMs);
  });
  try {
    return await Promise.race([ask(controller.signal), timeIsUp]);
  } finally {
    clearTimeout(timer);
  }
}

/** Name and code of an error, if they look like that; its message could quote a key or a signature. */
export function failureOf(who: string, thrown: unknown): string {
  const error = readable(thrown);
  if (error instanceof AnswerTimeoutError) return `${who} ${error.message}`;
  if (!(error instanceof Error)) return `${who} failed`;
  const code =
    'code' in error && typeof error.code === 'string' && /^[A-Z0-9_]{1,40}$/.test(error.code) ? error.code : '';
  const kind = /^[A-Za-z]{1,40}$/.test(error.name) ? error.name : 'Error';
  return `${who} failed: ${kind}${code === '' ? '' : ` ${code}`}`;
}
