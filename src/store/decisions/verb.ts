import type { FlowChange, Store } from '../store.ts';
import type { Decision } from './decision.ts';
import type { Port } from './port.ts';

/** The members of the store that are one transaction each. */
export type VerbName = Exclude<
  keyof Store,
  'close' | 'changes' | 'runChanged' | 'watchRuns' | 'onDue' | 'replica' | 'of'
>;

/** The argument of a member of the store, if it has only one. */
export type Given<Name extends VerbName> = Parameters<Store[Name]>[0];

/** The answer of a member. */
export type Answer<Name extends VerbName> = Awaited<ReturnType<Store[Name]>>;

/**
 * What other processes must know of a member that writes; null if they keep nothing of what it writes, as for
 * - runs and their steps: wake-ups report due steps, and `runChanged` tells the page the rest
 * - data that each process reads every second, every heartbeat or whenever it needs it
 * - records that are only read from the store
 */
export type Announced<Name extends VerbName> =
  | { readonly changes: null }
  | { changes(given: Given<Name>, answer: Answer<Name>): readonly FlowChange[] };

/** A member of the store, written once for every backend. */
export type Verb<Name extends VerbName> = {
  decide(port: Port, ...args: Parameters<Store[Name]>): Decision<Answer<Name>>;
} & (
  | {
      /** `log`: reads the delivery log, which may be visible only to the connection that writes. */
      readonly access: 'read' | 'log';
    }
  | ({ readonly access: 'write' } & Announced<Name>)
);

export type Verbs<Name extends VerbName> = { readonly [Own in Name]: Verb<Own> };
