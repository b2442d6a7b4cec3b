import type { z } from 'zod';
import type { DeliveryReviewAnswers } from '../../features/review/service.ts';
import type { attentionSchema } from '../api/attention.ts';
import type { deliverySchema } from '../api/deliveries.ts';
import type { DeployAnswers } from '../api/deploys.ts';
import type { SentEvent } from '../api/event-stream.ts';
import type { drainSchema } from '../api/flow-control.ts';
import type { FlowAnswers } from '../api/flows.ts';
import type { schemeSchema } from '../api/handlers-and-schemes.ts';
import type { findingSchema, RevisionAnswers } from '../api/revisions.ts';
import type { RunFailures } from '../api/run-failures.ts';
import type { RunHistoryAnswers } from '../api/run-history.ts';
import type { RunOutlineAnswers } from '../api/run-outline.ts';
import type { runSchema, triggerSchema } from '../api/runs.ts';
import type { stepSchema } from '../api/steps.ts';
import type { Graph } from './graph/graph.ts';

/*
 * What the API answers, by the very schemas that it answers with. This is the one file of the page that looks outside
 * of its folder, and it takes types alone: nothing of the server reaches the browser.
 */

export interface Api
  extends Pick<DeliveryReviewAnswers, 'ConfiguredField' | 'DeliveryDetail' | 'Layout'>,
    DeployAnswers,
    FlowAnswers,
    RevisionAnswers,
    RunHistoryAnswers,
    Omit<RunOutlineAnswers, 'RunOutline'> {
  readonly Attention: z.output<typeof attentionSchema>;
  readonly Delivery: z.output<typeof deliverySchema>;
  readonly Drain: z.output<typeof drainSchema>;
  readonly Finding: z.output<typeof findingSchema>;
  readonly Run: z.output<typeof runSchema>;
  readonly RunFailures: RunFailures;
  readonly RunOutline: Omit<RunOutlineAnswers['RunOutline'], 'graph'> & { readonly graph: Graph };
  readonly LiveEvent: SentEvent;
  readonly RunTrigger: z.output<typeof triggerSchema>;
  readonly Scheme: z.output<typeof schemeSchema>;
  readonly Step: z.output<typeof stepSchema>;
}

/** A list with `includeTotal=true`. */
export interface PageOf<Item> {
  readonly items: readonly Item[];
  readonly total: number;
  readonly skip: number;
  readonly take: number;
  /** Where a bounded search stopped. */
  readonly searchedUntil?: string | undefined;
}
