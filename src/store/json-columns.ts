import { type Json, parseJson } from '../model/json.ts';
import type { StepError } from '../model/run.ts';

/** JSON for a column, which has SQL's NULL for null. */
export function toJson(value: Json | StepError | undefined): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}

export function fromJson(text: string | null): Json {
  return text === null ? null : parseJson(text);
}

export function toError(text: string | null): StepError | null {
  return text === null ? null : JSON.parse(text);
}
