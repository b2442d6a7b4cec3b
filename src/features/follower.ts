import type { Follower } from '../store/decisions/follower.ts';
import { loopsFollower } from './loops/follower.ts';
import { onFailureFollower } from './on-failure/follower.ts';
import { subFlowsFollower } from './sub-flows/follower.ts';

/** Features that make more follow from a step or a run than its graph does, in the order in which they are asked. */
export const followers: readonly Follower[] = [onFailureFollower, subFlowsFollower, loopsFollower];
