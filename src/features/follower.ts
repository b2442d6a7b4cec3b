import type { Follower } from '../store/decisions/follower.ts';
import { onFailureFollower } from './on-failure/follower.ts';
import { subFlowsFollower } from './sub-flows/follower.ts';

/** Features that make other runs follow from a run, in the order in which they are asked. */
export const followers: readonly Follower[] = [onFailureFollower, subFlowsFollower];
