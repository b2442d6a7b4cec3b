import { forEach } from './for-each.ts';
import type { StepHandler } from './handler.ts';
import { createHttpRequestHandler } from './http-request.ts';
import { delay, fail, logMessage, noOp, transform, waitForSignal } from './plain-steps.ts';
import { runFlow } from './run-flow.ts';

export type HandlerTable = ReadonlyMap<string, StepHandler>;

/** The step types that every installation has. */
export function builtInHandlers(settings: Parameters<typeof createHttpRequestHandler>[0]): readonly StepHandler[] {
  return [
    noOp,
    logMessage,
    createHttpRequestHandler(settings),
    delay,
    transform,
    fail,
    waitForSignal,
    forEach,
    runFlow,
  ];
}

/** Handlers by the type they serve. Throws where two serve one type: which of them runs must never be a matter of order. */
export function handlerTable(handlers: readonly StepHandler[]): HandlerTable {
  const table = new Map<string, StepHandler>();
  for (const handler of handlers) {
    if (table.has(handler.type))
      throw new Error(`Two handlers have the step type "${handler.type}"; rename one of them.`);
    table.set(handler.type, handler);
  }
  return table;
}
