import { z } from 'zod';
import { mapStrings } from '../../expressions/json-path.ts';
import { defineHandler, type HandlerResult, type StepHandler } from '../../flows/handlers/handler.ts';
import { builtInHandlers, type HandlerTable, handlerTable } from '../../flows/handlers/index.ts';
import type { Answer, Outside, OutsideCall } from '../../flows/handlers/outside.ts';
import type { Json } from '../../model/json.ts';
import { shownUrl } from './hidden-secrets.ts';
import { UNANSWERED } from './simulator.ts';

export type { Answer, Request } from '../../flows/handlers/outside.ts';

/** A step that would have called out. */
export interface Call extends Omit<OutsideCall, 'runId' | 'stepKey'> {
  /** Of the step: see `Wait`. */
  readonly path: string;
}

/** Answers a call; undefined where the answer is not known, which is never made up: the step does not go on. */
export type AnswerCall = (call: Call) => Answer | undefined;

export const UNKNOWN: HandlerResult = { kind: 'waiting', signalName: UNANSWERED };

const plain: ReadonlySet<StepHandler> = new Set(builtInHandlers);

/** The same step types, of which none calls out: what does is answered instead. */
export function answeredHandlers(table: HandlerTable, outside: Outside): HandlerTable {
  return handlerTable(
    [...table.values()].map((handler) => {
      if (plain.has(handler) || handler.delegated !== undefined) return handler;
      return handler.rehearsed?.(outside) ?? answeredStep(handler, outside);
    }),
  );
}

/** Code of the operator's, of which nothing but its inputs is known. */
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
