/**
 * Changes that another process made in the store.
 *
 * A change says what to read again, not the new value: it may arrive late, twice, or for a change by this process
 * itself. A reader that reads the store after each change is correct even if it missed earlier ones.
 */
export type Change =
  /** A flow was deployed, enabled, disabled, drained, or opened again, or deliveries of it are held. */
  | { readonly kind: 'flow'; readonly flowId: string }
  /** A publisher handed over the key of a trigger of this flow, or an operator had one forgotten. */
  | { readonly kind: 'key'; readonly flowId: string }
  /** A cron trigger of this flow was paused, changed or fired. */
  | { readonly kind: 'schedule'; readonly flowId: string }
  /** Runs were started, went on or ended; without ids it may be any. Told only while this process watches: see `watchRuns`. */
  | { readonly kind: 'runs'; readonly runIds: readonly string[] };

/** A change of what each process keeps in memory of a flow. */
export type FlowChange = Exclude<Change, { kind: 'runs' }>;
