import type { Api } from '../../../dashboard/web/api-types.ts';
import type { Look } from '../../../dashboard/web/looks.ts';
import { words } from './words.ts';

type JudgedDelivery = Pick<Api['Delivery'], 'rejected' | 'statusCode' | 'reason' | 'outcome' | 'held'> &
  Partial<Pick<Api['Delivery'], 'edited'>>;

const FILTERED = 'Accepted; webhookWhen of its trigger is false for it, so no run started';
const JOINED = 'Accepted; it joined the run of another delivery';
const UNEVALUATED = 'Accepted, but an expression of its trigger could not be evaluated';
const ANSWERED = 'Accepted; it is for steps that wait, or will, and starts no run';
const GIVEN_UP = 'It never arrived, and could not be fetched from the log of its publisher';
const HELD = 'Accepted; its run starts once the flow is enabled or resumed';

/** The result of a delivery. One that failed a gate but was accepted anyway is neither good nor bad. */
export function deliveryLook({
  rejected,
  statusCode,
  reason,
  outcome,
  held,
  edited = false,
}: JudgedDelivery): Look & { readonly title?: string } {
  if (outcome === 'filtered') return { tone: 'quiet', icon: 'skip', text: 'Filtered', title: FILTERED };
  if (outcome === 'givenUp') return { tone: 'bad', icon: 'cross', text: 'Given up', title: GIVEN_UP };
  if (outcome === 'duplicate') {
    return { tone: 'quiet', icon: 'replay', text: 'Duplicate', title: 'Answered with the run of the first delivery' };
  }
  if (outcome === 'coalesced' && !held && !rejected) {
    return { tone: 'good', icon: 'check', text: 'Joined', title: JOINED };
  }
  if (edited) return { tone: 'warn', icon: 'replay', text: 'Edited', title: 'Sent by a person with an edited body' };
  if (outcome === 'answered' && !rejected) return { tone: 'good', icon: 'check', text: 'Answered', title: ANSWERED };
  if (held) return { tone: 'busy', icon: 'pause', text: 'Held', title: HELD };
  if (outcome === 'unevaluated') return { tone: 'warn', icon: 'warn', text: 'Accepted', title: UNEVALUATED };
  if (!rejected) return { tone: 'good', icon: 'check', text: 'Accepted' };
  const title = reason === null ? {} : { title: words.reasonMeaning(reason) };
  if (statusCode >= 400) return { tone: 'bad', icon: 'cross', text: 'Refused', ...title };
  return { tone: 'warn', icon: 'warn', text: 'Let in', ...title };
}
