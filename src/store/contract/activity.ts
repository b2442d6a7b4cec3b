import type { Page, PageQuery, TimeSpan } from './runs.ts';

/** What people and programs did to the service. */
export interface ActivityStore {
  /** Keeps an intervention that is about to happen. */
  beginIntervention(intervention: NewIntervention): Promise<void>;
  /** Adds to its details, such as how far it has got; a name that is there is overwritten. */
  noteIntervention(note: { id: string; details: Readonly<Record<string, string>> }): Promise<void>;
  /** Keeps how it ended. Changes nothing where it was never begun. */
  endIntervention(end: { id: string; statusCode: number }): Promise<void>;
  /** Newest first. */
  listInterventions(query: InterventionQuery): Promise<Page<Intervention>>;
  /** Deletes at most `limit` that began before an instant, and yields how many there were. */
  purgeInterventions(request: { before: number; limit: number }): Promise<number>;
}

export interface NewIntervention {
  /** UUID v7. */
  readonly id: string;
  readonly at: number;
  /** The name of a token or user, or what the service calls who has none. */
  readonly actor: string;
  /** Address that the request came from; null where it was no request. */
  readonly clientIp: string | null;
  /** The operation's id in the OpenAPI document, such as `cancelRun`. */
  readonly action: string;
  /** The flow, run, delivery or schedule; null where it is the whole service. */
  readonly target: { readonly type: 'flow' | 'run' | 'delivery' | 'schedule'; readonly id: string } | null;
  /** What else the address names, such as the step; by name. */
  readonly details: Readonly<Record<string, string>>;
  readonly reason: string | null;
}

export interface Intervention extends NewIntervention {
  /** The status of the answer; null while it is under way, and where the process died on the way. */
  readonly statusCode: number | null;
}

interface InterventionQuery extends PageQuery, TimeSpan {
  readonly id?: string | undefined;
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  /** The id of a flow, run, delivery or schedule. */
  readonly target?: string | undefined;
}
