import { acceptanceVerbs } from './decisions/acceptance.ts';
import { activityVerbs } from './decisions/activity.ts';
import { alertVerbs } from './decisions/alerts.ts';
import { controlVerbs } from './decisions/control.ts';
import { deliveryVerbs } from './decisions/deliveries.ts';
import { deployVerbs } from './decisions/deploys.ts';
import { figureVerbs } from './decisions/figures.ts';
import { flowVerbs } from './decisions/flows.ts';
import { hostVerbs } from './decisions/hosts.ts';
import { keyVerbs } from './decisions/keys.ts';
import { learnedKeyVerbs } from './decisions/learned-keys.ts';
import { leaseVerbs } from './decisions/leases.ts';
import type { KeyIndex } from './decisions/lists.ts';
import { payloadVerbs } from './decisions/payloads.ts';
import { heldVerbs } from './decisions/release.ts';
import { type OwnRows, removalVerbs } from './decisions/removal.ts';
import { revisionVerbs } from './decisions/revisions.ts';
import { routeVerbs } from './decisions/routes.ts';
import { runVerbs } from './decisions/runs.ts';
import { scheduleVerbs } from './decisions/schedules.ts';
import { stepVerbs } from './decisions/step-views.ts';
import { waitingVerbs } from './decisions/waiting-steps.ts';

interface OwnTables extends OwnRows {
  /** What finds runs by their search keys. */
  readonly runKeys: readonly KeyIndex[];
}

/** All members that are said once, for a backend with these tables of its own. */
export const verbsWith = ({ runKeys, ...ownRows }: OwnTables) => ({
  ...flowVerbs,
  ...scheduleVerbs,
  ...learnedKeyVerbs,
  ...deployVerbs,
  ...revisionVerbs,
  ...routeVerbs,
  ...acceptanceVerbs,
  ...heldVerbs,
  ...deliveryVerbs(runKeys),
  ...removalVerbs(ownRows),
  ...runVerbs(runKeys),
  ...leaseVerbs,
  ...waitingVerbs,
  ...controlVerbs,
  ...stepVerbs,
  ...figureVerbs,
  ...activityVerbs,
  ...alertVerbs,
  ...keyVerbs,
  ...payloadVerbs,
  ...hostVerbs,
});
