import type { Store } from '../store.ts';
import type { Lane } from './connections.ts';
import type { Sql } from './sql.ts';

/** The members of the store that are one transaction each. */
export type OperationName = Exclude<keyof Store, 'close' | 'changes'>;

/** What a member does in its transaction. */
export type Member<Name extends OperationName> = (
  sql: Sql,
  ...args: Parameters<Store[Name]>
) => Promise<Awaited<ReturnType<Store[Name]>>>;

/** Names the connections that run a member, and what it does in its transaction. */
export interface Operation<Name extends OperationName> {
  readonly lane: Lane;
  readonly run: Member<Name>;
}

export const operations = {
  ping: { lane: 'write', run: ping },
} as const satisfies { readonly [Name in OperationName]?: Operation<Name> };

/** Raises a number, because a transaction without a change would commit even on a full or read-only disk. */
async function ping(sql: Sql): Promise<void> {
  await sql.run(
    'INSERT INTO sluice.pings AS p (slot, count) VALUES ($1, 1) ON CONFLICT (slot) DO UPDATE SET count = p.count + 1',
    [sql.slot],
  );
}
