/** Keeps what people and programs did to the service. Without it, only the log has that. */
export interface ActivityList {
  /** Called before anything is kept; `id` and `at` are for an entry about a key that changed since. */
  open(change: { readonly id: string; readonly at: number }): Promise<void>;
  /** Keeps an intervention that is about to happen. */
  begin(intervention: NewIntervention): Promise<void>;
  /** Keeps how it ended. Changes nothing if it was never begun. */
  end(end: { readonly id: string; readonly statusCode: number }): Promise<void>;
}

export interface NewIntervention {
  /** UUID v7. */
  readonly id: string;
  readonly at: number;
  /** The name of a token or user, or the service's word for a caller without a name. */
  readonly actor: string;
  /** Address that the request came from; null if there was no request. */
  readonly clientIp: string | null;
  /** The operation's id in the OpenAPI document, such as `cancelRun`. */
  readonly action: string;
  /** The flow, run, delivery or schedule; null for the whole service. */
  readonly target: { readonly type: 'flow' | 'run' | 'delivery' | 'schedule'; readonly id: string } | null;
  /** Other things that the address names, such as the step; by name. */
  readonly details: Readonly<Record<string, string>>;
  readonly reason: string | null;
}

const nothing = async () => {};
export const noActivity: ActivityList = { open: nothing, begin: nothing, end: nothing };
