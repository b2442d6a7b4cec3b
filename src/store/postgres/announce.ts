import { createHash } from 'node:crypto';
import type { FlowChange } from '../store.ts';
import type { OperationName } from './operation.ts';
import { operations } from './operations.ts';
import type { Sql } from './sql.ts';

/**
 * Announces, in a member's own transaction, what it changed. The row counts, by the number of the transaction that
 * wrote it; the notice, which PostgreSQL sends with the commit, only saves the others a wait.
 */
export async function announce(sql: Sql, name: OperationName, { given, answer }: Called): Promise<void> {
  // Each operation types its own argument and answer; this code only passes them on.
  const operation = operations[name] as { changes?: ((given: unknown, answer: unknown) => FlowChange[]) | null };
  const changes = operation.changes?.(given, answer) ?? [];
  if (changes.length === 0) return;
  await sql.all(
    `WITH changed AS (
      INSERT INTO sluice.changes (flow_id, kind)
      SELECT DISTINCT flow_id, kind FROM unnest($1::text[], $2::text[]) AS given (flow_id, kind) ORDER BY flow_id, kind
      ON CONFLICT (flow_id, kind) DO UPDATE SET xid = pg_current_xact_id()
      RETURNING flow_id, kind
    )
    SELECT pg_notify($3, json_build_object('kind', kind, 'flowId', flow_id)::text) FROM changed`,
    [changes.map(({ flowId }) => flowId), changes.map(({ kind }) => kind), channelOf(sql.schema)],
  );
}

interface Called {
  readonly given: unknown;
  readonly answer: unknown;
}

/** The channel on which a schema's replicas listen: channels belong to a whole database, and their names are short. */
export function channelOf(schema: string): string {
  return schema === 'sluice' ? 'sluice_changes' : `sluice_changes_${digestOf(schema)}`;
}

function digestOf(schema: string): string {
  return createHash('sha256').update(schema).digest('hex').slice(0, 32);
}
