import type { Json } from '../../model/json.ts';
import type { Delegated } from '../delegated.ts';
import type { StepHandler } from './handler.ts';

/** A request as it would have left, without secrets: those that the manifest names are `[secret env:NAME]`. */
export interface Request {
  readonly method: string;
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON, or text, or base64 of what is neither; null where there is none. */
  readonly body: Json;
}

/** What a step would have sent, in a rehearsal. */
export interface OutsideCall {
  readonly runId: string;
  readonly stepKey: string;
  /** From 1. */
  readonly attempt: number;
  readonly type: string;
  /** Resolved inputs, without secrets. */
  readonly input: Json;
  /** Null of a step of another type than `HttpRequest`, whose code says what it calls. */
  readonly request: Request | null;
}

/**
 * How an attempt ended: with an output, or with an error, which may have one too. The output of an `HttpRequest` is its
 * answer `{ status, headers, body }`, which the step judges as if it had just come.
 */
export interface Answer {
  readonly output?: Json | undefined;
  readonly error?: { readonly code: string; readonly message: string; readonly retryable: boolean } | undefined;
}

/** What stands for the world in a rehearsal; undefined where the answer is not known, which is never made up. */
export interface Outside {
  answer(call: OutsideCall): Answer | undefined;
}

/** A step type as the service has it; what operators' code cannot bring is of the built-in types. */
export interface ServedHandler extends StepHandler {
  /** Why a step that keeps this state waits, in words that follow "because". */
  whyWaiting?(state: Json | undefined): string | undefined;
  /** Seconds that an attempt with these inputs takes at most, apart from the limit of its step. */
  mostSeconds?(inputs: Json): number;
  /** The same type for a rehearsal, where it calls nothing. Without it nothing but its inputs is known. */
  rehearsed?(outside: Outside): StepHandler;
  /** In place of `run`, where the step is a run of another flow. */
  readonly delegated?: Delegated;
}
