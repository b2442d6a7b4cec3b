import type { z } from 'zod';
import type { attentionSchema } from '../api/attention.ts';
import type { deliverySchema } from '../api/deliveries.ts';
import type { deliveryDetailSchema, dryRunSchema, readinessSchema, redeliverySchema } from '../api/delivery-review.ts';
import type { bucketSchema, deliveryStatsSchema, deliveryTimeseriesSchema } from '../api/figures.ts';
import type { drainSchema } from '../api/flow-control.ts';
import type { flowDetailSchema, flowSchema } from '../api/flows.ts';
import type { diffSchema, findingSchema, revisionSchema } from '../api/revisions.ts';
import type { lineageSchema, runEventSchema } from '../api/run-history.ts';
import type { iterationsSchema, outlineSchema, stepOutlineSchema } from '../api/run-outline.ts';
import type { runSchema, triggerSchema } from '../api/runs.ts';
import type { scheduleSchema } from '../api/schedules.ts';
import type { stepSchema } from '../api/steps.ts';
import type { Graph } from './graph/graph.ts';

/*
 * What the API answers, by the very schemas that it answers with. This is the one file of the page that looks outside
 * of its folder, and it takes types alone: nothing of the server reaches the browser.
 */

export type Delivery = z.output<typeof deliverySchema>;
export type DeliveryDetail = z.output<typeof deliveryDetailSchema>;
export type Reason = NonNullable<Delivery['reason']>;
export type Readiness = z.output<typeof readinessSchema>;
export type Redelivery = z.output<typeof redeliverySchema>;
export type DryRun = z.output<typeof dryRunSchema>;
export type Flow = z.output<typeof flowSchema>;
export type FlowDetail = z.output<typeof flowDetailSchema>;
export type Revision = z.output<typeof revisionSchema>;
export type RevisionDiff = z.output<typeof diffSchema>;
export type Finding = z.output<typeof findingSchema>;
export type Drain = z.output<typeof drainSchema>;
export type Run = z.output<typeof runSchema>;
export type RunStatus = Run['status'];
export type Step = z.output<typeof stepSchema>;
export type StepStatus = Step['status'];
export type StepOutline = z.output<typeof stepOutlineSchema>;
export type RunOutline = Omit<z.output<typeof outlineSchema>, 'graph'> & { readonly graph: Graph };
export type Iterations = z.output<typeof iterationsSchema>;
export type RunTrigger = z.output<typeof triggerSchema>;
export type RunEvent = z.output<typeof runEventSchema>;
export type Lineage = z.output<typeof lineageSchema>;
export type Schedule = z.output<typeof scheduleSchema>;
export type RunBucket = z.output<typeof bucketSchema>;
export type DeliveryTimes = z.output<typeof deliveryTimeseriesSchema>;
export type DeliveryStats = z.output<typeof deliveryStatsSchema>;
export type Attention = z.output<typeof attentionSchema>;

/** A list with `includeTotal=true`. */
export interface PageOf<Item> {
  readonly items: readonly Item[];
  readonly total: number;
  readonly skip: number;
  readonly take: number;
}

export type LiveEventType =
  | 'run.started'
  | 'step.started'
  | 'step.completed'
  | 'step.retried'
  | 'run.completed'
  | 'delivery.received';
