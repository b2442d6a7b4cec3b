import { decide } from '../decisions/decision.ts';
import type { Announced, VerbName as OperationName, Verb, Verbs } from '../decisions/verb.ts';
import type { Store } from '../store.ts';
import type { Purpose } from './connections.ts';
import type { Sql } from './sql.ts';

export type { Answer, Given, VerbName as OperationName } from '../decisions/verb.ts';

/** Members that are not verbs, and write nothing that other replicas must know. */
type Unheard =
  | 'accept'
  | 'beat'
  | 'beginHousekeeping'
  | 'claimDue'
  | 'claimOverdue'
  | 'keepTime'
  | 'ping'
  | 'recordDelivery';

/** The connections that run a member, and its work in the transaction. */
export type Operation<Name extends OperationName> = {
  run(sql: Sql, ...args: Parameters<Store[Name]>): Promise<Awaited<ReturnType<Store[Name]>>>;
} & (
  | { readonly purpose: 'read' }
  | ({ readonly purpose: Exclude<Purpose, 'read'> } & (Name extends Unheard ? unknown : Announced<Name>))
);

/** The operations of some members of the store. */
export type Operations<Name extends OperationName> = { readonly [Own in Name]: Operation<Own> };

/** Those members of this store that are verbs: each runs in a transaction of its own. */
export function operationsOf<Name extends OperationName>(verbs: Verbs<Name>): Operations<Name> {
  const operations = Object.entries<Verb<Name>>(verbs).map(([name, verb]) => [
    name,
    {
      ...(verb.access === 'write' ? { purpose: 'write', changes: verb.changes } : { purpose: 'read' }),
      run: ({ port }: Sql, ...given: Parameters<Store[Name]>) => decide(verb.decide(port, ...given)),
    },
  ]);
  return Object.fromEntries(operations);
}
