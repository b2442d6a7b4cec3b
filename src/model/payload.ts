/** Below and above all ids of deliveries. */
export const FIRST_ID = '00000000-0000-0000-0000-000000000000';
export const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** No id that was made at that instant or later is lower: the first 48 bits of an id are its milliseconds. */
export function firstIdAt(at: number): string {
  const hex = Math.max(0, Math.floor(at)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}

/** What is at a path of a delivery. `mixed`: the items of a list differ. */
export const PATH_TYPES = ['absent', 'null', 'boolean', 'number', 'string', 'array', 'object', 'mixed'] as const;
export type PathType = (typeof PATH_TYPES)[number];

/** The same as it is counted. `failed`: it is absent, and the run failed because of that. */
export type CountedType = PathType | 'failed';

/**
 * What a missing path means to a flow. `required`: each run that reads it fails. `conditional`: only some runs read it.
 * `optional`: the flow tests whether it exists.
 */
export const PATH_USES = ['required', 'conditional', 'optional'] as const;
export type PathUse = (typeof PATH_USES)[number];

/** A path at which deliveries have no longer what they had. */
export interface PathDrift {
  /** Deliveries of one event are compared with each other; null where they have none, or the path tells the event. */
  readonly event: string | null;
  readonly path: string;
  readonly was: PathType;
  readonly now: PathType;
  /** The first delivery that is known to differ, and when it came. */
  readonly firstId: string;
  readonly firstAt: number;
  /** Deliveries that were looked at: before, and those since then that differ. */
  readonly before: number;
  readonly differing: number;
  /** How many of those had runs that failed because the path was missing. */
  readonly failed: number;
}
