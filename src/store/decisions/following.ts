import { followers } from '../../features/follower.ts';
import { type Decision, known } from './decision.ts';
import type { FollowedRun, Led, PlannedRun, Scopes, SubRuns } from './follower.ts';
import { leavePlace } from './placing.ts';
import type { RunRows } from './rows.ts';

const cannot = (what: string) =>
  ({ code: 'internal_error', message: `No step can ${what} here.`, retryable: false }) as const;

/** If no follower starts runs for steps, such a step fails. */
const startsNone: SubRuns = {
  start: () => known({ result: { kind: 'failed', error: cannot('run a flow') }, run: null }),
  orphan: () => known(undefined),
  takeOrphans: () => known([]),
};

function* failLoop({ rows, runId, at, plan }: PlannedRun): Decision<void> {
  rows.closeSteps(runId, cannot('be a loop'), at);
  yield* plan({ scope: '' });
}

/** If no follower runs loops, a loop fails, and with it every other open step of its run. */
const noScopes: Scopes = {
  begin: failLoop,
  ended: failLoop,
  *items() {
    return () => null;
  },
  causes: (_run, stepKey) => known([stepKey]),
  reopen: () => known([]),
};

const ends = followers.flatMap(({ end }) => end ?? []);
export const scopes = followers.flatMap((follower) => follower.scopes ?? [])[0] ?? noScopes;
export const subRuns = followers.flatMap((follower) => follower.subRuns ?? [])[0] ?? startsNone;

/** What the end of a run leads to in other runs; the next run of its key comes last. */
export function* followEnd(rows: RunRows, ended: FollowedRun): Decision<Led> {
  let led: Led = {};
  for (const end of ends) led = { ...led, ...(yield* end(rows, ended)) };
  const next = yield* leavePlace(rows, ended);
  return next === undefined ? led : { ...led, next };
}
