import type { FlowChange, Store } from '../store.ts';
import type { Decision } from './decision.ts';
import type { Port } from './port.ts';

/** The members of the store that are one transaction each. */
export type VerbName = Exclude<
  keyof Store,
  'close' | 'changes' | 'runChanged' | 'watchRuns' | 'onDue' | 'replica' | 'of'
>;

/** What a member of the store is called with, if that is one value. */
export type Given<Name extends VerbName> = Parameters<Store[Name]>[0];

/** What it answers. */
export type Answer<Name extends VerbName> = Awaited<ReturnType<Store[Name]>>;

/**
 * What other processes must hear of a member that writes; null if they keep nothing of what it writes. That is so for
 * - runs and their steps: wake-ups tell of due steps, and `runChanged` the page of the rest
 * - what each process reads every second, every heartbeat or whenever it needs it
 * - records that are only read from the store
 */
export type Announced<Name extends VerbName> =
  | { readonly changes: null }
  | { changes(given: Given<Name>, answer: Answer<Name>): readonly FlowChange[] };

/** A member of the store, said once for every backend. */
export type Verb<Name extends VerbName> = {
  decide(port: Port, ...args: Parameters<Store[Name]>): Decision<Answer<Name>>;
} & (
  | {
      /** `log`: reads the delivery log, which only the connection that writes may see. */
      readonly access: 'read' | 'log';
    }
  | ({ readonly access: 'write' } & Announced<Name>)
);

export type Verbs<Name extends VerbName> = { readonly [Own in Name]: Verb<Own> };
