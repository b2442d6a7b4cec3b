import { z } from 'zod';
import { parseBody } from '../../expressions/trigger-body.ts';
import type { Run } from '../../model/run.ts';
import type { RunDetail } from '../../store/store.ts';
import { shownHeaders } from '../../webhooks/headers.ts';
import { id, integer, isoTime, isoTimeOrNull, json, time } from './formats.ts';
import { MAX_STEPS, stepSchema } from './step-view.ts';

export const runStatusSchema = z.enum(['Running', 'Succeeded', 'Failed', 'Skipped', 'Cancelled', 'TimedOut']);

export const runSchema = z
  .object({
    id: id(),
    flowId: id(),
    flowName: z.string(),
    flowVersion: z.string(),
    revision: integer(),
    status: runStatusSchema,
    triggerKey: z.string(),
    triggerType: z.enum(['manual', 'cron', 'webhook']),
    deliveryId: id().nullable(),
    sourceRunId: id().nullable(),
    startedAt: time(),
    completedAt: time().nullable(),
  })
  .meta({ id: 'Run' });

export const triggerSchema = z.object({
  triggerBody: json().describe(
    'What expressions read as trigger.body: JSON, form fields, text, or { base64 } for other bytes.',
  ),
  triggerHeaders: z.record(z.string(), z.string()).describe('Values of headers that may hold a credential redacted.'),
});

export const runDetailSchema = runSchema
  .extend({
    ...triggerSchema.shape,
    steps: z.array(stepSchema).describe(`The first ${MAX_STEPS}; the others are at …/steps.`),
    stepsTotal: integer(),
  })
  .meta({ id: 'RunDetail' });

export function runView(run: Run): z.output<typeof runSchema> {
  return {
    id: run.id,
    flowId: run.flowId,
    flowName: run.flowName,
    flowVersion: run.flowVersion,
    revision: run.revision,
    status: run.status,
    triggerKey: run.triggerKey,
    triggerType: run.triggerType,
    deliveryId: run.deliveryId,
    sourceRunId: run.sourceRunId,
    startedAt: isoTime(run.startedAt),
    completedAt: isoTimeOrNull(run.completedAt),
  };
}

export function triggerView({ trigger: { body, contentType, headers } }: RunDetail): z.output<typeof triggerSchema> {
  const parsed = parseBody(body, contentType ?? undefined);
  // What is too much to read as a value, such as JSON nested thousands of levels deep, is shown as the text that it is.
  const triggerBody = 'value' in parsed ? parsed.value : Buffer.from(body).toString('utf8');
  return { triggerBody, triggerHeaders: shownHeaders(headers) };
}
