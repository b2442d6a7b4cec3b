import type { Store } from '../store.ts';
import type { Decision } from './decision.ts';
import type { Port } from './port.ts';

/** The members of the store that are one transaction each. */
export type VerbName = Exclude<keyof Store, 'close' | 'changes' | 'runChanged' | 'watchRuns' | 'onDue' | 'replica'>;

/** What a member of the store is called with, if that is one value. */
export type Given<Name extends VerbName> = Parameters<Store[Name]>[0];

/** What it answers. */
export type Answer<Name extends VerbName> = Awaited<ReturnType<Store[Name]>>;

/** A member of the store, said once for every backend. */
export interface Verb<Name extends VerbName> {
  /** `log`: reads the delivery log, which only the connection that writes may see. */
  readonly access: 'read' | 'log' | 'write';
  decide(port: Port, ...args: Parameters<Store[Name]>): Decision<Answer<Name>>;
}

export type Verbs<Name extends VerbName> = { readonly [Own in Name]: Verb<Own> };
