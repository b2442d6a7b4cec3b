import { z } from 'zod';
import type { DeliveryRecord } from '../../model/delivery.ts';
import type { Readiness } from '../../review/readiness.ts';
import type { DeliveryReview } from '../../review/review.ts';
import { deliverySchema, deliveryView, reasonSchema } from './delivery-view.ts';
import { id, integer, isoTimeOrNull, json, time } from './formats.ts';

const modeSchema = z.enum(['Off', 'Audit', 'Enforce']);

const storySchema = z.object({
  gate: z.string(),
  outcome: z.enum(['passed', 'failed', 'not evaluated', 'not configured']),
  reason: reasonSchema.nullable(),
  detail: z.string().nullable(),
  facts: z.record(z.string(), json()),
  configured: z.record(z.string(), json()).nullable().describe('Fields of the trigger in force.'),
});

const advice = {
  story: z.array(storySchema).describe('What each gate did, in pipeline order.'),
  hints: z.array(z.string()).describe('What would help, by the stored bytes and the trigger in force.'),
  signature: z
    .record(z.string(), json())
    .nullable()
    .describe('What the trigger in force signs and compares; keys by a fingerprint that is new with each process.'),
};

export const deliveryDetailSchema = deliverySchema
  .extend({ ...advice, redeliveredFrom: id().nullable(), redeliveredAs: id().nullable() })
  .meta({ id: 'DeliveryDetail' });

export const rehearsalSchema = z
  .object({
    flowId: id(),
    triggerKey: z.string(),
    mode: modeSchema,
    statusCode: integer().describe('What would be answered.'),
    reason: reasonSchema.nullable(),
    violations: z.array(reasonSchema),
    ...advice,
  })
  .meta({ id: 'Rehearsal' });

export const redeliverySchema = z
  .object({
    redeliveredFrom: id(),
    outcome: z.enum(['accepted', 'would be accepted', 'accepted before', 'refused', 'not possible']),
    reason: reasonSchema.nullable(),
    message: z.string(),
    deliveryId: id().nullable(),
    runId: id().nullable(),
  })
  .meta({ id: 'Redelivery' });

export const readinessSchema = z
  .object({
    flowId: id(),
    flowName: z.string(),
    triggerKey: z.string(),
    mode: modeSchema,
    watchedSince: time().nullable(),
    total: integer(),
    clean: integer(),
    refused: integer(),
    gates: z.array(
      z.object({
        gate: z.string(),
        isConfigured: z.boolean(),
        refused: integer(),
        reasons: z.array(z.object({ reason: reasonSchema, count: integer(), examples: z.array(id()) })),
      }),
    ),
    safeToEnforce: z.boolean(),
    reason: z.string(),
  })
  .meta({ id: 'Readiness' });

export function deliveryDetailView(
  record: DeliveryRecord,
  { story, hints, signature }: DeliveryReview,
  redeliveredAs: string | null,
): z.output<typeof deliveryDetailSchema> {
  const redeliveredFrom = record.redeliveredFrom ?? null;
  return { ...deliveryView(record), ...adviceView({ story, hints, signature }), redeliveredFrom, redeliveredAs };
}

export function adviceView({ story, hints, signature }: DeliveryReview) {
  return {
    story: story.map(({ facts, configured, ...entry }) => ({
      ...entry,
      facts: { ...facts },
      configured: configured === null ? null : { ...configured },
    })),
    hints: [...hints],
    signature: signature === null ? null : { ...signature },
  };
}

export function readinessView(readiness: Readiness): z.output<typeof readinessSchema> {
  return {
    ...readiness,
    watchedSince: isoTimeOrNull(readiness.watchedSince),
    gates: readiness.gates.map((gate) => ({
      ...gate,
      reasons: gate.reasons.map((entry) => ({ ...entry, examples: [...entry.examples] })),
    })),
  };
}
