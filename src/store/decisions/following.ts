import { followers } from '../../features/follower.ts';
import { type Decision, known } from './decision.ts';
import type { FollowedRun, Led, SubRuns } from './follower.ts';
import { leavePlace } from './placing.ts';
import type { RunRows } from './rows.ts';

/** If no follower starts runs for steps, such a step fails. */
const startsNone: SubRuns = {
  start() {
    const error = { code: 'internal_error', message: 'No step can run a flow here.', retryable: false } as const;
    return known({ result: { kind: 'failed', error }, run: null });
  },
  orphan: () => known(undefined),
  takeOrphans: () => known([]),
};

export const subRuns = followers.flatMap((follower) => follower.subRuns ?? [])[0] ?? startsNone;

/** What the end of a run leads to in other runs; the next run of its key comes last. */
export function* followEnd(rows: RunRows, ended: FollowedRun): Decision<Led> {
  let led: Led = {};
  for (const follower of followers) led = { ...led, ...(yield* follower.end(rows, ended)) };
  const next = yield* leavePlace(rows, ended);
  return next === undefined ? led : { ...led, next };
}
