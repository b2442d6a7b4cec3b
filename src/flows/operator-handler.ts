import { readable } from '../model/error-kind.ts';
import { type Json, parseJson } from '../model/json.ts';
import { messageOf } from './handler-result.ts';
import type { HandlerResult, StepCall, StepHandler } from './handlers/handler.ts';
import { checkedResult } from './run-handler.ts';
import { StepFailure } from './step-failure.ts';

/**
 * Wraps an operator's handler so that steps can rely on it: its result is read once and copied, so that nothing that
 * the operator's code does during the reading, or later, affects the step. Errors during the reading are the handler's
 * failure.
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
        return isThenable(given) ? Promise.resolve(given).then(resultOf, rethrow) : resultOf(given);
      } catch (error) {
        return rethrow(error);
      }
    },
  };
}

function rethrow(error: unknown): never {
  throw readable(error);
}

/** Includes promises of libraries. */
function isThenable(given: unknown): given is PromiseLike<unknown> {
  return typeof given === 'object' && given !== null && 'then' in given && typeof given.then === 'function';
}

/** An unreadable result fails the step for good: the handler has done its work, and must not be called again. */
function resultOf(given: unknown): HandlerResult {
  try {
    const { kind, output, code, message, retryable, retryAfterMs, until, signalName, state } = Object(given);
    // `internal_error` means a fault of Sluice and costs no attempt, so handlers cannot use it.
    const told = {
      code: String(code).replace(/^internal_error$/, 'handler_error'),
      message: String(message),
      retryable,
    };
    const asked = retryAfterMs === undefined ? {} : { retryAfterMs: Number(retryAfterMs) };
    const more = kind === 'failed' ? { ...told, ...asked, output } : { output };
    const result = checkedResult({ kind, ...(kind === 'waiting' ? { until, signalName, state } : more) });
    const name = result.kind === 'waiting' ? 'state' : 'output';
    const kept: Json | undefined = Reflect.get(result, name);
    return kept === undefined ? result : { ...result, [name]: copyOf(kept) };
  } catch (error) {
    throw error instanceof StepFailure ? error : new StepFailure('handler_error', messageOf(error));
  }
}

function copyOf(value: Json): Json {
  return typeof value === 'object' && value !== null ? parseJson(JSON.stringify(value)) : value;
}

/** Undefined if the answer is unusable: then a signal can have any name. */
function namesOf(ask: () => unknown): readonly string[] | undefined {
  try {
    const names = ask();
    return Array.isArray(names) ? names.map(String) : undefined;
  } catch {
    // A refused signal is lost, but one that no step waits for does no harm.
    return undefined;
  }
}

function callOf(given: StepCall | undefined): StepCall {
  const { method, url } = Object(given);
  return { method: String(method), url: new URL(String(url)) };
}
