import { readable } from '../model/error-kind.ts';
import { type Json, parseJson } from '../model/json.ts';
import type { HandlerResult, StepCall, StepHandler } from './handlers/handler.ts';
import { checkedResult } from './run-handler.ts';

/**
 * A handler of the operator's, held to what a step relies on: what it yields is read once and copied, so that nothing the
 * operator's code does when it is read, or afterwards, reaches the step. What fails in doing so is the handler's failure.
 */
export function operatorHandler(handler: StepHandler): StepHandler {
  const { type, inputs, secretInputs } = handler;
  return {
    type,
    inputs,
    secretInputs: [...secretInputs],
    ...(handler.waitsFor === undefined ? {} : { waitsFor: (...given) => namesOf(() => handler.waitsFor?.(...given)) }),
    ...(handler.calls === undefined ? {} : { calls: (given) => callOf(handler.calls?.(given)) }),
    run(context) {
      try {
        const given: unknown = handler.run(context);
        return isThenable(given) ? settled(given) : resultOf(given);
      } catch (error) {
        throw readable(error);
      }
    },
  };
}

async function settled(given: PromiseLike<unknown>): Promise<HandlerResult> {
  try {
    return resultOf(await given);
  } catch (error) {
    throw readable(error);
  }
}

/** A promise of a library is one too. */
function isThenable(given: unknown): given is PromiseLike<unknown> {
  return typeof given === 'object' && given !== null && 'then' in given && typeof given.then === 'function';
}

function resultOf(given: unknown): HandlerResult {
  const { kind, output, code, message, retryable, retryAfterMs, until, signalName, state } = Object(given);
  const told = { code: String(code), message: String(message), retryable };
  const asked = retryAfterMs === undefined ? {} : { retryAfterMs: Number(retryAfterMs) };
  const wait = { until, signalName, state };
  const result = checkedResult({
    kind,
    ...(kind === 'failed' ? { ...told, ...asked, output } : kind === 'waiting' ? wait : { output }),
  });
  if (result.kind === 'waiting')
    return result.state === undefined ? result : { ...result, state: copyOf(result.state) };
  return result.output === undefined ? result : { ...result, output: copyOf(result.output) };
}

function copyOf(value: Json): Json {
  return typeof value === 'object' && value !== null ? parseJson(JSON.stringify(value)) : value;
}

/** Undefined where it says nothing that can be used: then a signal may have any name. */
function namesOf(ask: () => unknown): readonly string[] | undefined {
  try {
    const names = ask();
    return Array.isArray(names) ? names.map(String) : undefined;
  } catch {
    // A signal that is refused is lost, and one that no step waits for does no harm.
    return undefined;
  }
}

function callOf(given: StepCall | undefined): StepCall {
  const { method, url } = Object(given);
  return { method: String(method), url: new URL(String(url)) };
}
