import type { z } from 'zod';
import type { deliverySchema } from '../../features/deliveries/service.ts';
import type { DeployAnswers } from '../../features/deploys/service.ts';
import type { drainSchema } from '../../features/flows/flow-control.ts';
import type { FlowAnswers } from '../../features/flows/service.ts';
import type { DeliveryReviewAnswers } from '../../features/review/service.ts';
import type { findingSchema, RevisionAnswers } from '../../features/revisions/service.ts';
import type { RunFailures } from '../../features/runs/failures.ts';
import type { RunHistoryAnswers } from '../../features/runs/history.ts';
import type { RunOutlineAnswers } from '../../features/runs/outline.ts';
import type { Graph } from '../../features/runs/page/graph.ts';
import type { runSchema, triggerSchema } from '../../features/runs/runs.ts';
import type { stepSchema } from '../../features/runs/steps.ts';
import type { schemeSchema } from '../../features/schemes/service.ts';
import type { SentEvent } from '../api/event-stream.ts';

/*
 * The API's answers, typed by the very schemas of the API. This is the only file of the page that imports from outside
 * its folder, and only types: no server code reaches the browser.
 */

export interface Api
  extends Pick<DeliveryReviewAnswers, 'ConfiguredField' | 'DeliveryDetail' | 'Layout'>,
    DeployAnswers,
    FlowAnswers,
    RevisionAnswers,
    RunHistoryAnswers,
    Omit<RunOutlineAnswers, 'RunOutline'> {
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
