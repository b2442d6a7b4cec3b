import { pino } from 'pino';
import type { HandlerResult, StepContext, StepHandler } from '../../../src/flows/handlers/handler.ts';

/** Parses inputs as a run does, and runs the handler. */
export async function call(
  handler: StepHandler,
  inputs: unknown,
  context: Partial<StepContext> = {},
): Promise<HandlerResult> {
  return handler.run({
    inputs: handler.inputs.parse(inputs),
    flowId: 'flow',
    runId: 'run',
    stepKey: 'step',
    attempt: 1,
    idempotencyKey: 'run:step',
    secretReferences: [],
    mask: (text) => text,
    trigger: () => Promise.reject(new Error('no trigger was expected to be read')),
    logger: pino({ level: 'silent' }),
    now: () => 0,
    isFailureHandled: false,
    resumed: null,
    signal: new AbortController().signal,
    ...context,
  });
}
