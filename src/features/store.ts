import type { WrittenPart } from '../store/decisions/part.ts';
import { activityStore } from './activity/store.ts';
import { alertsStore } from './alerts/store.ts';
import { approvalsStore } from './approvals/store.ts';
import { booksStore } from './books/store.ts';
import { bulkStore } from './bulk/store.ts';
import { consumersStore } from './consumers/store.ts';
import { deliveriesStore } from './deliveries/store.ts';
import { driftStore } from './drift/store.ts';
import { figuresStore } from './figures/store.ts';
import { flowsStore } from './flows/store.ts';
import { holdStore } from './hold/store.ts';
import { httpRequestStore } from './http-request/store.ts';
import { keysStore } from './keys/store.ts';
import { learnedKeysStore } from './learned-keys/store.ts';
import { loginStore } from './login/store.ts';
import { orderStore } from './order/store.ts';
import { reconcileStore } from './reconcile/store.ts';
import { reviewStore } from './review/store.ts';
import { revisionsStore } from './revisions/store.ts';
import { rhythmStore } from './rhythm/store.ts';
import { runsStore } from './runs/store.ts';
import { schedulesStore } from './schedules/store.ts';
import { signalsStore } from './signals/store.ts';

/** Verbs that features add to the store. */
export const storeParts: readonly WrittenPart[] = [
  booksStore,
  reconcileStore,
  consumersStore,
  rhythmStore,
  alertsStore,
  driftStore,
  keysStore,
  activityStore,
  figuresStore,
  reviewStore,
  runsStore,
  bulkStore,
  orderStore,
  deliveriesStore,
  flowsStore,
  revisionsStore,
  httpRequestStore,
  approvalsStore,
  schedulesStore,
  signalsStore,
  holdStore,
  learnedKeysStore,
  loginStore,
];
