import type { Json } from '../../model/json.ts';
import type { Delegated } from '../delegated.ts';
import type { StepHandler } from './handler.ts';

/** A request that would have been sent, without secrets: those that the manifest names are `[secret env:NAME]`. */
export interface Request {
  readonly method: string;
  readonly url: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON, or text, or base64 of other bytes; null if there is none. */
  readonly body: Json;
}

/** A call that a step would have made, in a rehearsal. */
export interface OutsideCall {
  readonly runId: string;
  readonly stepKey: string;
  /** From 1. */
  readonly attempt: number;
  readonly type: string;
  /** Resolved inputs, without secrets. */
  readonly input: Json;
  /** Null for types other than `HttpRequest`, whose calls only their code knows. */
  readonly request: Request | null;
}

/**
 * The end of an attempt: an output, or an error, perhaps with an output. The output of an `HttpRequest` is its answer
 * `{ status, headers, body }`, which the step judges as if it had just arrived.
 */
export interface Answer {
  readonly output?: Json | undefined;
  readonly error?: { readonly code: string; readonly message: string; readonly retryable: boolean } | undefined;
}

/** Replaces the outside world in a rehearsal; yields undefined for unknown answers and never invents one. */
export interface Outside {
  answer(call: OutsideCall): Answer | undefined;
}

/** A step type in the service; operators' code cannot set the additional members of built-in types. */
export interface ServedHandler extends StepHandler {
  /** Why a step with this state waits, in words that follow "because". */
  whyWaiting?(state: Json | undefined): string | undefined;
  /** Maximum seconds of an attempt with these inputs, apart from the limit of its step. */
  mostSeconds?(inputs: Json): number;
  /** The same type for a rehearsal, in which it calls nothing. Without it, only its inputs are known. */
  rehearsed?(outside: Outside): StepHandler;
  /** Replaces `run` if the store runs the step by other steps. */
  readonly delegated?: Delegated;
}
