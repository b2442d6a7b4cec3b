/** Steps by key, as much of them as a picture shows; a flow's manifest and a run's outline both have it. */
export interface Graph {
  readonly [stepKey: string]: GraphStep;
}

export interface GraphStep {
  readonly type: string;
  readonly runAfter: { readonly [upstreamKey: string]: GraphEdge };
  /** Of a loop: its children. */
  readonly steps?: Graph | undefined;
}

export interface GraphEdge {
  readonly statuses: readonly string[];
  readonly when?: string | undefined;
}
