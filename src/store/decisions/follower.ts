import type { Advance } from '../store.ts';
import type { Decision } from './decision.ts';
import type { EndedRun } from './placer.ts';
import type { FoundRun, RunRows } from './rows.ts';

/** A run that ended in this transaction. */
export type FollowedRun = EndedRun & Pick<FoundRun, 'triggerType'>;

/** What the end of a run led to in others. */
export type Led = Pick<Advance, 'failure' | 'woken' | 'next'>;

/** Has other runs follow from a run. `features/follower.ts` lists the followers, in the order in which they are asked. */
export interface Follower {
  readonly name: string;
  end(rows: RunRows, ended: FollowedRun): Decision<Led>;
}
