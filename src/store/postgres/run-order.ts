import { type CommitOrder, type KeyIndex, sql } from '../decisions/port.ts';

export const runKeys: readonly KeyIndex[] = [
  { table: 'sluice.run_keys', owner: 'k.run_id', newest: 'k.run_id DESC', any: 'k.folded' },
];

/** Commits become visible in another order than transaction numbers, so a run waits for all earlier transactions. */
export const commitOrder: CommitOrder = {
  column: 'xid',
  isSettled: 'r.delivery_id IS NOT NULL AND r.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint',
  end: 'pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1',
  joins: {
    at: 'j.xid',
    isSettled: 'j.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint',
    number: null,
    end: '0',
  },
  // A server restored from a dump starts its transaction numbers again.
  *adopt(port) {
    const foreign = yield* port.run(sql`
      UPDATE sluice.runs SET xid = 0
      WHERE delivery_id IS NOT NULL AND xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint`);
    const joined = yield* port.run(sql`
      UPDATE sluice.run_deliveries SET xid = 0
      WHERE place > 1 AND xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint`);
    return foreign + joined > 0;
  },
};
