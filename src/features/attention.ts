import { alertsAttention } from './alerts/attention.ts';
import { attentionAttention } from './attention/attention.ts';
import { deliveriesAttention } from './deliveries/attention.ts';
import { doctorAttention } from './doctor/attention.ts';
import { driftAttention } from './drift/attention.ts';
import { holdAttention } from './hold/attention.ts';
import { hostsAttention } from './hosts/attention.ts';
import { keysAttention } from './keys/attention.ts';
import { orderAttention } from './order/attention.ts';
import { reconcileAttention } from './reconcile/attention.ts';
import { replicasAttention } from './replicas/attention.ts';
import { respondAttention } from './respond/attention.ts';
import { rhythmAttention } from './rhythm/attention.ts';
import { runsAttention } from './runs/attention.ts';
import { schedulesAttention } from './schedules/attention.ts';

/** Kinds of attention items that features add. Each feature has its rules in its `service.ts`. */
export const attentionKinds = [
  attentionAttention,
  rhythmAttention,
  hostsAttention,
  reconcileAttention,
  schedulesAttention,
  keysAttention,
  driftAttention,
  replicasAttention,
  alertsAttention,
  orderAttention,
  respondAttention,
  holdAttention,
  deliveriesAttention,
  runsAttention,
  doctorAttention,
];
