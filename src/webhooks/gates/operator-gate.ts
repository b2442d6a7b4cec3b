import { type Gate, GateConfigurationError, type GatePlugin, type GateSettings } from '../gate.ts';

/**
 * A gate of the operator's, held to what a chain relies on: it has its plugin's name, answers in time, and where it
 * cannot be prepared the manifest does not load, with a line that names it.
 */
export function operatorGate<Settings extends GateSettings>(plugin: GatePlugin<Settings>): GatePlugin<Settings> {
  const { name } = plugin;
  return {
    name,
    prepare(trigger, settings) {
      const gate = prepared(plugin, () => plugin.prepare(trigger, settings));
      if (gate === undefined) return undefined;
      const { isExpensive } = gate;
      const limitMs = settings.verifierTimeLimitMs;
      const check: Gate['check'] = (delivery, evidence) => answerInTime(() => gate.check(delivery, evidence), limitMs);
      if (gate.dryRun === undefined) return { name, isExpensive, check };
      const dryRun = gate.dryRun.bind(gate);
      return {
        name,
        isExpensive,
        check,
        dryRun: (delivery, evidence) => answerInTime(() => dryRun(delivery, evidence), limitMs),
      };
    },
  };
}

function prepared({ name }: { readonly name: string }, prepare: () => unknown): Gate | undefined {
  let gate: unknown;
  try {
    gate = prepare();
  } catch (error) {
    if (error instanceof GateConfigurationError) throw error;
    throw new GateConfigurationError(
      undefined,
      `${failureOf(`the gate "${name}"`, error)} in prepare${placeOf(error)}`,
    );
  }
  if (gate === undefined || gate === null) return undefined;
  if (isGate(gate)) return gate;
  // A gate that is not there by mistake must not pass for one that the trigger does not configure.
  const message = `the gate "${name}" is not usable: prepare must return { name, check } or nothing, and not a promise`;
  throw new GateConfigurationError(undefined, message);
}

/** Plain JavaScript may return anything. */
function isGate(value: unknown): value is Gate {
  return typeof value === 'object' && value !== null && 'check' in value && typeof value.check === 'function';
}

/** Where an error was thrown; its message may quote a key. */
function placeOf(error: unknown): string {
  const [, place] = /\n\s+at [^\n]*?((?:file:\/\/)?\/[^\n()]+:\d+:\d+)\)?/.exec((error as Error)?.stack ?? '') ?? [];
  return place === undefined ? '' : `, at ${place}`;
}

/** Publishers wait three to thirty seconds for an answer, and each delivery that waits holds its body in memory. */
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

/** Name and code of an error, where they look like such; its message may quote a key or a signature. */
export function failureOf(who: string, error: unknown): string {
  if (error instanceof AnswerTimeoutError) return `${who} ${error.message}`;
  if (!(error instanceof Error)) return `${who} failed`;
  const code =
    'code' in error && typeof error.code === 'string' && /^[A-Z0-9_]{1,40}$/.test(error.code) ? error.code : '';
  const kind = /^[A-Za-z]{1,40}$/.test(error.name) ? error.name : 'Error';
  return `${who} failed: ${kind}${code === '' ? '' : ` ${code}`}`;
}
