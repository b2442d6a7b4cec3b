/**
 * What another process changed in the store.
 *
 * A change says where to look again and nothing of what is there: it may come late, twice, or for what this process
 * itself did. A reader that asks the store for each is right whatever it missed before.
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
