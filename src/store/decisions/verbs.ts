import { storeParts } from '../../features/store.ts';
import { deliveryVerbs } from './deliveries.ts';
import { deployVerbs } from './deploys.ts';
import { figureVerbs } from './figures.ts';
import { flowVerbs } from './flows.ts';
import { advance } from './follow.ts';
import { leaseVerbs } from './leases.ts';
import { verbsOfParts } from './part.ts';
import { type OwnRows, removalVerbs } from './removal.ts';
import { retryStep } from './retry.ts';
import { revisionVerbs } from './revisions.ts';
import { routeVerbs } from './routes.ts';
import { runRowsOf } from './run-rows.ts';
import { runVerbs } from './runs.ts';
import { sessionVerbs } from './sessions.ts';
import { deliverSignal } from './signal.ts';
import { stepVerbs } from './step-views.ts';
import { cancelRun } from './stop.ts';
import type { Verbs } from './verb.ts';
import { waitingVerbs } from './waiting-steps.ts';

const controlVerbs: Verbs<'advance' | 'cancelRun' | 'retryStep' | 'deliverSignal'> = {
  advance: {
    access: 'write',
    changes: null,
    decide: (port, outcome, lease) => advance(runRowsOf(port), outcome, lease),
  },
  cancelRun: { access: 'write', changes: null, decide: (port, cancel) => cancelRun(runRowsOf(port), cancel) },
  retryStep: { access: 'write', changes: null, decide: (port, retry) => retryStep(runRowsOf(port), retry) },
  deliverSignal: { access: 'write', changes: null, decide: (port, signal) => deliverSignal(runRowsOf(port), signal) },
};

/** The kernel's members that are written once, for a backend with these tables of its own. */
const kernelVerbs = (ownRows: OwnRows) => ({
  ...flowVerbs,
  ...deployVerbs,
  ...revisionVerbs,
  ...routeVerbs,
  ...deliveryVerbs,
  ...removalVerbs(ownRows),
  ...runVerbs,
  ...leaseVerbs,
  ...waitingVerbs,
  ...controlVerbs,
  ...stepVerbs,
  ...figureVerbs,
  ...sessionVerbs,
});

export const answering = storeParts.flatMap((part) => part.answering ?? [])[0];

/** The verbs of the listed parts. */
export const partVerbs = verbsOfParts(storeParts, {});

/**
 * All members that are written once, including those of the parts. Only the kernel's have a type here: callers get the
 * others from `Store.of`.
 */
export function verbsWith(own: OwnRows): ReturnType<typeof kernelVerbs> {
  const kernel = kernelVerbs(own);
  return { ...kernel, ...verbsOfParts(storeParts, kernel) };
}
