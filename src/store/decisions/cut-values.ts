import { type Json, parseJson } from '../../model/json.ts';
import type { Attempt } from '../../model/run.ts';
import { toError } from '../json-columns.ts';
import type { CutValue, StepView, ValueLimits } from '../store.ts';

/** How many characters of a value's JSON replace it if it is cut. */
export const PREVIEW_CHARACTERS = 200;
/** How many attempts of a step a view shows, the newest ones. */
export const MAX_ATTEMPTS = 100;

const VALUES = ['input', 'output', 'evaluationTrace'] as const;
type Value = (typeof VALUES)[number];

/** A value in a row: whole, or its beginning and size. */
type ValueColumns<Name extends string> = {
  readonly [Key in Name]: string | null;
} & { readonly [Key in `${Name}Bytes`]: number | null } & { readonly [Key in `${Name}Preview`]: string | null };

export type StepRow = Omit<StepView, Value | 'runId' | 'error' | 'attempts' | 'truncated'> & {
  readonly error: string | null;
} & ValueColumns<Value>;
export type AttemptRow = Omit<Attempt, 'input' | 'output' | 'error'> & {
  readonly stepKey: string;
  readonly error: string | null;
} & ValueColumns<'input' | 'output'>;

/** Shows whole values until an answer has reached its limit of bytes. */
export class Cutter {
  /** Limit for one value. */
  readonly maxBytes: number;
  #left: number;

  constructor(limits: ValueLimits | undefined) {
    this.maxBytes = limits?.valueBytes ?? Number.MAX_SAFE_INTEGER;
    this.#left = limits?.answerBytes ?? Number.POSITIVE_INFINITY;
  }

  step(runId: string, row: StepRow): StepView {
    const { stepKey, stepType, status, skipReason, attemptCount, dueAt, startedAt, completedAt } = row;
    const input = this.#shown(row.input, row.inputBytes, row.inputPreview);
    const output = this.#shown(row.output, row.outputBytes, row.outputPreview);
    const trace = this.#shown(row.evaluationTrace, row.evaluationTraceBytes, row.evaluationTracePreview);
    return {
      runId,
      stepKey,
      stepType,
      status,
      input: input.value,
      output: output.value,
      error: toError(row.error),
      skipReason,
      evaluationTrace: trace.value,
      attemptCount,
      attempts: [],
      dueAt,
      startedAt,
      completedAt,
      ...(input.isCut || output.isCut || trace.isCut ? { truncated: true } : {}),
    };
  }

  attempt(row: AttemptRow): StepView['attempts'][number] {
    const { attempt, status, slotWaitMs, startedAt, completedAt, inputsRevision } = row;
    const input = this.#shown(row.input, row.inputBytes, row.inputPreview);
    const output = this.#shown(row.output, row.outputBytes, row.outputPreview);
    return {
      attempt,
      status,
      input: input.value,
      output: output.value,
      error: toError(row.error),
      slotWaitMs,
      startedAt,
      completedAt,
      inputsRevision,
      ...(input.isCut || output.isCut ? { truncated: true } : {}),
    };
  }

  #shown(text: string | null, bytes: number | null, preview: string | null): { value: Json; isCut: boolean } {
    if (bytes === null) return { value: null, isCut: false };
    if (text !== null && bytes <= this.#left) {
      this.#left -= bytes;
      return { value: parseJson(text), isCut: false };
    }
    const beginning = preview ?? text?.slice(0, PREVIEW_CHARACTERS) ?? '';
    const value: CutValue = { truncated: true, length: bytes, preview: beginning };
    return { value: { ...value }, isCut: true };
  }
}
