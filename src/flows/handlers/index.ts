import type { ServedHandler } from './outside.ts';
import { delay, fail, logMessage, noOp, transform } from './plain-steps.ts';
import { waitForSignal } from './wait-for-signal.ts';

export type HandlerTable = ReadonlyMap<string, ServedHandler>;

/** The step types that call nothing outside. */
export const builtInHandlers: readonly ServedHandler[] = [noOp, logMessage, delay, transform, fail, waitForSignal];

/** Handlers by their step type. Throws if two have the same: the order must never decide which one runs. */
export function handlerTable(handlers: readonly ServedHandler[]): HandlerTable {
  const table = new Map<string, ServedHandler>();
  for (const handler of handlers) {
    if (table.has(handler.type))
      throw new Error(`Two handlers have the step type "${handler.type}"; rename one of them.`);
    table.set(handler.type, handler);
  }
  return table;
}
