import { followers } from '../../features/follower.ts';
import type { Decision } from './decision.ts';
import type { FollowedRun, Led } from './follower.ts';
import { leavePlace } from './placing.ts';
import type { RunRows } from './rows.ts';
import { wakeParent } from './sub-runs.ts';

/** What the end of a run leads to in others; the next run of its key comes last. */
export function* followEnd(rows: RunRows, ended: FollowedRun): Decision<Led> {
  let led: Led = {};
  for (const follower of followers) led = { ...led, ...(yield* follower.end(rows, ended)) };
  const woken = yield* wakeParent(rows, ended);
  const next = yield* leavePlace(rows, ended);
  return { ...led, ...(woken && { woken }), ...(next && { next }) };
}
