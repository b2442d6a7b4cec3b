import type { Store } from '../store.ts';
import type { Lane } from './connections.ts';
import type { Sql } from './sql.ts';

/** The members of the store that are one transaction each. */
export type OperationName = Exclude<
  keyof Store,
  'close' | 'changes' | 'runChanged' | 'watchRuns' | 'onDue' | 'replica'
>;

/** Names the connections that run a member, and what it does in its transaction. */
export interface Operation<Name extends OperationName> {
  readonly lane: Lane;
  run(sql: Sql, ...args: Parameters<Store[Name]>): Promise<Awaited<ReturnType<Store[Name]>>>;
}

/** What some members of the store do. */
export type Operations<Name extends OperationName> = { readonly [Own in Name]: Operation<Own> };

/** What a member of the store is called with, if that is one value. */
export type Given<Name extends OperationName> = Parameters<Store[Name]>[0];

/** What it answers. */
export type Answer<Name extends OperationName> = Awaited<ReturnType<Store[Name]>>;
