import { z } from 'zod';
import { mapStrings } from '../../expressions/json-path.ts';
import { defineHandler, type HandlerResult, type StepHandler } from '../../flows/handlers/handler.ts';
import { builtInHandlers, type HandlerTable, handlerTable } from '../../flows/handlers/index.ts';
import type { Answer, Outside, OutsideCall } from '../../flows/handlers/outside.ts';
import type { Json } from '../../model/json.ts';
import { shownUrl } from './hidden-secrets.ts';
import { UNANSWERED } from './simulator.ts';

export type { Answer, Request } from '../../flows/handlers/outside.ts';

/** A call that a step would have made to the outside. */
export interface Call extends Omit<OutsideCall, 'runId' | 'stepKey'> {
  /** Path of the step: see `Wait`. */
  readonly path: string;
}

/** Answers a call. Undefined if the answer is unknown: no answer is made up, and the step does not go on. */
export type AnswerCall = (call: Call) => Answer | undefined;

export const UNKNOWN: HandlerResult = { kind: 'waiting', signalName: UNANSWERED };

const plain: ReadonlySet<StepHandler> = new Set(builtInHandlers);

/** The same step types, but those that call out get answers instead. */
export function answeredHandlers(table: HandlerTable, outside: Outside): HandlerTable {
  return handlerTable(
    [...table.values()].map((handler) => {
      if (plain.has(handler) || handler.delegated !== undefined) return handler;
      return handler.rehearsed?.(outside) ?? answeredStep(handler, outside);
    }),
  );
}

/** A step type of an operator; only its inputs are known. */
function answeredStep({ type, secretInputs }: StepHandler, { answer }: Outside): StepHandler {
  return defineHandler({
    type,
    inputs: z.custom<Json>(),
    secretInputs,
    run: ({ inputs, runId, stepKey, attempt }) =>
      resultOf(answer({ runId, stepKey, attempt, type, input: mapStrings(inputs, shownUrl), request: null })),
  });
}

export function resultOf(answer: Answer | undefined): HandlerResult {
  if (answer === undefined) return UNKNOWN;
  const { output = null, error } = answer;
  return error === undefined ? { kind: 'succeeded', output } : { kind: 'failed', ...error, output };
}
