import { z } from 'zod';
import type { Json, JsonObject } from '../../model/json.ts';
import type { RunTrigger } from '../../model/run.ts';

/** Code for a step type. */
export interface StepHandler {
  /** The `type` of its steps; exact. */
  readonly type: string;
  /** Parses resolved inputs before `run`; inputs that do not fit fail the step with the path. */
  readonly inputs: z.ZodType;
  /**
   * Inputs whose `env:NAME` and `file:PATH` values are secrets, as paths with `*` for any key, such as `headers.*`.
   * Their resolved values are masked in everything that is recorded.
   */
  readonly secretInputs: readonly string[];
  /**
   * Names of the signals for which a step with this key and these inputs, as written in the manifest, can wait;
   * undefined if any. A name with a placeholder counts as any name too. A signal that no step of a run can wait for is
   * refused. Without this function, a step can wait for any signal.
   */
  waitsFor?(inputs: JsonObject, stepKey: string): readonly string[] | undefined;
  /** The target that a step with these inputs calls, for error messages; absent if it calls nothing. */
  calls?(inputs: unknown): StepCall;
  run(context: StepContext): Promise<HandlerResult> | HandlerResult;
}

export interface StepCall {
  readonly method: string;
  readonly url: URL;
}

/** The service's log; each line names the flow, the run and the step. */
type StepLogger = Readonly<Record<'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal', WriteLine>>;

interface WriteLine {
  (message: string): void;
  (fields: object, message?: string): void;
}

export interface StepContext<Inputs = unknown> {
  /** The resolved inputs after the schema parsed them; values that the schema passes through unchanged are frozen. */
  readonly inputs: Inputs;
  readonly flowId: string;
  readonly runId: string;
  readonly stepKey: string;
  /** From 1. */
  readonly attempt: number;
  /** The same for every attempt of this step of this run: pass it to services that must not act twice. */
  readonly idempotencyKey: string;
  /** `env:NAME` and `file:PATH` of its secret inputs: they identify its credentials without revealing them. */
  readonly secretReferences: readonly string[];
  /** Exact bytes and headers that started the run. */
  readonly trigger: () => Promise<RunTrigger>;
  /** The text without the values of its secret inputs, for everything that goes elsewhere than to their receivers. */
  readonly mask: (text: string) => string;
  readonly logger: StepLogger;
  /** Wall clock, milliseconds since the Unix epoch. */
  readonly now: () => number;
  /** Whether a later step of the run runs if this one fails. */
  readonly isFailureHandled: boolean;
  /**
   * Set if this attempt has waited: its stored state, and the signal that arrived, or null if the time came first. An
   * attempt gets each signal once; after a failed attempt, the next one gets the same signals again, as soon as it
   * waits for them.
   */
  readonly resumed: { readonly state: Json; readonly signal: { readonly body: Json } | null } | null;
  /**
   * Aborts at the time limit of the step, or when the process stops waiting for it. If a handler continues regardless,
   * its result is ignored, and another attempt may run at the same time.
   */
  readonly signal: AbortSignal;
}

export type HandlerResult =
  | { readonly kind: 'succeeded'; readonly output: Json }
  | {
      readonly kind: 'failed';
      /** snake_case, for machines. */
      readonly code: string;
      readonly message: string;
      readonly retryable: boolean;
      /** Earliest time of the next attempt, in milliseconds from now, if the other side asked for a delay. */
      readonly retryAfterMs?: number;
      readonly output?: Json;
    }
  /** Continues later, in a new call, perhaps in another process: at the named time or signal, whichever comes first. */
  | {
      readonly kind: 'waiting';
      /** Milliseconds since the Unix epoch. */
      readonly until?: number;
      readonly signalName?: string;
      /** Only for `WaitForSignal`: a delivery answers this step if it has this key. */
      readonly signalKey?: string | undefined;
      /** Passed to the next call as `resumed.state`; secrets in it are masked, so store none. */
      readonly state?: Json;
    };

/**
 * Gives a handler the types of its input schema.
 *
 * @example
 * defineHandler({ type: 'Greet', inputs: z.object({ name: z.string() }), run: ({ inputs }) =>
 *   ({ kind: 'succeeded', output: `hello ${inputs.name}` }) })
 */
export function defineHandler<Schema extends z.ZodType>(definition: {
  type: string;
  inputs: Schema;
  secretInputs?: readonly string[];
  waitsFor?: StepHandler['waitsFor'];
  calls?(inputs: z.output<Schema>): StepCall;
  run(context: StepContext<z.output<Schema>>): Promise<HandlerResult> | HandlerResult;
}): StepHandler {
  const { calls } = definition;
  return {
    type: definition.type,
    inputs: definition.inputs,
    secretInputs: definition.secretInputs ?? [],
    ...(definition.waitsFor === undefined ? {} : { waitsFor: definition.waitsFor }),
    ...(calls === undefined ? {} : { calls: (inputs) => calls(inputs as z.output<Schema>) }),
    run: (context) => definition.run(context as StepContext<z.output<Schema>>),
  };
}

/** For handlers whose steps never wait for a signal. */
export const noSignals = (): readonly string[] => [];

// Rendered inputs are already JSON; walking through a large value again would cost milliseconds.
export const anyJson = z.custom<Json>((value) => value !== undefined, 'expected any JSON value');

/** A signal that aborts when its time is up, or with the outer signal. */
interface TimeLimit {
  readonly signal: AbortSignal;
  /** Whether it ended because the time was up. */
  readonly isUp: boolean;
  /** Stops the timer; always call it. */
  end(): void;
}

/** Abort reason of a signal whose time is up. */
export class TimeUpError extends Error {
  constructor() {
    super('the time is up');
    this.name = 'TimeUpError';
  }
}

// AbortSignal.any over AbortSignal.timeout would do the same, but can be collected as garbage before it fires
// (github.com/nodejs/node/issues/57736, read 2026-11), and refuses fractions of a millisecond.
export function startTimeLimit(seconds: number, outer: AbortSignal): TimeLimit {
  const controller = new AbortController();
  let isUp = false;
  const abort = () => controller.abort(outer.reason);
  const timer = setTimeout(() => {
    isUp = true;
    controller.abort(new TimeUpError());
  }, seconds * 1000);
  if (outer.aborted) abort();
  else outer.addEventListener('abort', abort);
  return {
    signal: controller.signal,
    get isUp() {
      return isUp;
    },
    end() {
      clearTimeout(timer);
      outer.removeEventListener('abort', abort);
    },
  };
}
