import { z } from 'zod';
import { anyJson, defineHandler, noSignals } from './handler.ts';

/** Yields its value, with its expressions resolved. */
export const transform = defineHandler({
  type: 'Transform',
  inputs: z.strictObject({ value: anyJson.describe('Any JSON; its expressions are resolved.') }),
  waitsFor: noSignals,
  run: ({ inputs }) => ({ kind: 'succeeded', output: inputs.value }),
});

/** Does nothing, with any inputs: joins steps, or replaces a retired one. */
export const noOp = defineHandler({
  type: 'NoOp',
  inputs: z.unknown(),
  waitsFor: noSignals,
  run: () => ({ kind: 'succeeded', output: null }),
});

/** Fails with its message, without another attempt: a dead end on purpose. */
export const fail = defineHandler({
  type: 'Fail',
  inputs: z.strictObject({ message: z.string().min(1).describe('Error message of the step.') }),
  waitsFor: noSignals,
  run: ({ inputs }) => ({ kind: 'failed', code: 'failed_on_purpose', message: inputs.message, retryable: false }),
});

/** Writes one log line with the ids of run and step; the output is the unchanged message. */
export const logMessage = defineHandler({
  type: 'LogMessage',
  inputs: z.strictObject({
    message: anyJson.describe('Text, or any JSON.'),
    level: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal'])
      .default('info')
      .describe('Level of the log line.'),
  }),
  waitsFor: noSignals,
  run: ({ inputs: { message, level }, logger, mask }) => {
    logger[level](mask(typeof message === 'string' ? message : JSON.stringify(message)));
    return { kind: 'succeeded', output: message };
  },
});

/** The longest wait of a step: ten years. */
export const MAX_WAIT_SECONDS = 315_360_000;

const delayInputs = z
  .strictObject({
    seconds: z.number().min(0).max(MAX_WAIT_SECONDS).optional().describe('How long to wait.'),
    until: z.iso
      .datetime({ offset: true, error: 'expected a time such as 2026-03-01T12:00:00Z' })
      .transform((text) => Date.parse(text))
      .optional()
      .describe('ISO 8601 with an offset; a time in the past does not wait.'),
  })
  .refine(({ seconds, until }) => (seconds === undefined) !== (until === undefined), {
    error: 'expected either seconds or until',
  });

/** Waits; the wait survives a restart. */
export const delay = defineHandler({
  type: 'Delay',
  inputs: delayInputs,
  waitsFor: noSignals,
  run: ({ inputs: { seconds = 0, until }, resumed, now }) => {
    // The end is fixed when the step starts; a deploy that changes the inputs does not move it.
    const end = typeof resumed?.state === 'number' ? resumed.state : (until ?? now() + seconds * 1000);
    if (now() >= end) return { kind: 'succeeded', output: null };
    return { kind: 'waiting', until: end, state: end };
  },
});
