/** The type of the value at a path of a delivery. `mixed`: the items of a list differ. */
export const PATH_TYPES = ['absent', 'null', 'boolean', 'number', 'string', 'array', 'object', 'mixed'] as const;
export type PathType = (typeof PATH_TYPES)[number];

/** The counted form. `failed`: the path is absent, and the run failed because of that. */
export type CountedType = PathType | 'failed';

/**
 * What a missing path does to a flow. `required`: each run that reads it fails. `conditional`: only some runs read it.
 * `optional`: the flow tests whether it exists.
 */
export const PATH_USES = ['required', 'conditional', 'optional'] as const;
export type PathUse = (typeof PATH_USES)[number];

/** A path at which newer deliveries differ from older ones. */
export interface PathDrift {
  /** Deliveries are compared per event; null if they have none, or if the path holds the event. */
  readonly event: string | null;
  readonly path: string;
  readonly was: PathType;
  readonly now: PathType;
  /** The first delivery that is known to differ, and when it arrived. */
  readonly firstId: string;
  readonly firstAt: number;
  /** Counts of compared deliveries: earlier ones, and later ones that differ. */
  readonly before: number;
  readonly differing: number;
  /** How many of the differing ones had runs that failed because the path was missing. */
  readonly failed: number;
}
