import { z } from 'zod';
import { defineHandler, MAX_WAIT_SECONDS, noSignals } from './handler.ts';

const inputs = z
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

/** Waits, and survives a restart doing so. */
export const delay = defineHandler({
  type: 'Delay',
  inputs,
  waitsFor: noSignals,
  run: ({ inputs: { seconds = 0, until }, resumed, now }) => {
    // The end is settled when the step starts; a deploy that changes the inputs moves it no more.
    const end = typeof resumed?.state === 'number' ? resumed.state : (until ?? now() + seconds * 1000);
    if (now() >= end) return { kind: 'succeeded', output: null };
    return { kind: 'waiting', until: end, state: end };
  },
});
