/**
 * Changes that another process made in the store.
 *
 * A change says what to read again, not the new value: it may arrive late, twice, or for a change by this process
 * itself. A reader that reads the store after each change is correct even if it missed earlier ones.
 */
export type Change =
  /** A flow was deployed, enabled, disabled, drained or opened again, or holds deliveries. */
  | { readonly kind: 'flow'; readonly flowId: string }
  /** A publisher handed over the key of a trigger of this flow, or an operator deleted it. */
  | { readonly kind: 'key'; readonly flowId: string }
  /** A cron trigger of this flow was paused, changed or fired. */
  | { readonly kind: 'schedule'; readonly flowId: string }
  /** Runs started, went on or ended; without ids it can be any. Only while this process watches: see `watchRuns`. */
  | { readonly kind: 'runs'; readonly runIds: readonly string[] };

/** A change to the facts about a flow that each process keeps in memory. */
export type FlowChange = Exclude<Change, { kind: 'runs' }>;
