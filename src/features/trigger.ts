import { coalesceTrigger } from './coalesce/trigger.ts';
import { filterTrigger } from './filter/trigger.ts';
import { handshakeTrigger } from './handshake/trigger.ts';
import { holdTrigger } from './hold/trigger.ts';
import { reconcileTrigger } from './reconcile/trigger.ts';
import { respondTrigger } from './respond/trigger.ts';
import { rhythmTrigger } from './rhythm/trigger.ts';
import { searchKeysTrigger } from './search-keys/trigger.ts';
import { signalsTrigger } from './signals/trigger.ts';

/** Fields that features add to a webhook trigger. */
export const triggerParts = [
  respondTrigger,
  searchKeysTrigger,
  coalesceTrigger,
  rhythmTrigger,
  reconcileTrigger,
  handshakeTrigger,
  signalsTrigger,
  holdTrigger,
  filterTrigger,
] as const;
