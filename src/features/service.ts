import { eventStream } from '../dashboard/api/event-stream.ts';
import { metrics } from '../dashboard/api/service.ts';
import type { ServicePart } from '../dashboard/services.ts';
import { accessRecord } from './access-record/service.ts';
import { activity } from './activity/service.ts';
import { alerts } from './alerts/service.ts';
import { apiDocs } from './api-docs/service.ts';
import { approvals } from './approvals/service.ts';
import { attention } from './attention/service.ts';
import { books } from './books/service.ts';
import { bulk } from './bulk/service.ts';
import { consumers } from './consumers/service.ts';
import { deliveries } from './deliveries/service.ts';
import { deploys } from './deploys/service.ts';
import { doctor } from './doctor/service.ts';
import { drift } from './drift/service.ts';
import { evidence } from './evidence/service.ts';
import { figures } from './figures/service.ts';
import { flows } from './flows/service.ts';
import { hold } from './hold/service.ts';
import { hosts } from './hosts/service.ts';
import { keys } from './keys/service.ts';
import { learnedKeys } from './learned-keys/service.ts';
import { login } from './login/service.ts';
import { order } from './order/service.ts';
import { reconcile } from './reconcile/service.ts';
import { rehearsal } from './rehearsal/service.ts';
import { replicas } from './replicas/service.ts';
import { respond } from './respond/service.ts';
import { review } from './review/service.ts';
import { revisions } from './revisions/service.ts';
import { rhythm } from './rhythm/service.ts';
import { runs } from './runs/service.ts';
import { schedules } from './schedules/service.ts';
import { schemes } from './schemes/service.ts';
import { signOn } from './sign-on/service.ts';
import { signals } from './signals/service.ts';

/**
 * Parts of the service. The API document lists their routes in this order. Requests are tried on the ways in in this
 * order too: the person whom a proxy names comes before an old session of the browser.
 */
export const serviceParts: readonly ServicePart[] = [
  consumers,
  deliveries,
  review,
  evidence,
  figures,
  books,
  runs,
  bulk,
  schedules,
  flows,
  hold,
  deploys,
  rehearsal,
  revisions,
  drift,
  schemes,
  attention,
  activity,
  keys,
  metrics,
  eventStream,
  replicas,
  hosts,
  alerts,
  rhythm,
  reconcile,
  order,
  respond,
  apiDocs,
  approvals,
  doctor,
  signals,
  learnedKeys,
  signOn,
  login,
  accessRecord,
];
