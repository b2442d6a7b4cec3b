import { acceptanceVerbs } from './acceptance.ts';
import { activityVerbs } from './activity.ts';
import { alertVerbs } from './alerts.ts';
import { controlVerbs } from './control.ts';
import { deliveryVerbs } from './deliveries.ts';
import { deployVerbs } from './deploys.ts';
import { figureVerbs } from './figures.ts';
import { flowVerbs } from './flows.ts';
import { hostVerbs } from './hosts.ts';
import { keyVerbs } from './keys.ts';
import { learnedKeyVerbs } from './learned-keys.ts';
import { leaseVerbs } from './leases.ts';
import type { KeyIndex } from './lists.ts';
import { payloadVerbs } from './payloads.ts';
import { heldVerbs } from './release.ts';
import { type OwnRows, removalVerbs } from './removal.ts';
import { revisionVerbs } from './revisions.ts';
import { routeVerbs } from './routes.ts';
import { runVerbs } from './runs.ts';
import { scheduleVerbs } from './schedules.ts';
import { stepVerbs } from './step-views.ts';
import { waitingVerbs } from './waiting-steps.ts';

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
