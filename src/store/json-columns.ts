import { type Json, parseJson } from '../model/json.ts';
import type { StepError } from '../model/run.ts';

/** JSON as a column keeps it: null is SQL's. */
export function toJson(value: Json | StepError | undefined): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}

export function fromJson(text: string | null): Json {
  return text === null ? null : parseJson(text);
}

export function toError(text: string | null): StepError | null {
  return text === null ? null : JSON.parse(text);
}
