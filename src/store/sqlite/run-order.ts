import type { CommitOrder, KeyIndex } from '../decisions/port.ts';

/** The index of search keys, and the keys newer than it. `k.run`, `k.folded` and `k.name` mean the same in both. */
export const runKeys: readonly KeyIndex[] = [
  {
    table: `(SELECT i.seq AS run, k.value ->> 0 AS name, k.value ->> 1 AS folded
      FROM run_input_rows i CROSS JOIN json_each(i.search_keys) k WHERE i.seq > (SELECT coalesce(max(last_run), 0) FROM run_key_segments))`,
    owner: 'k.run',
    newest: 'k.run DESC',
  },
  {
    table: 'run_key_segments s NATURAL CROSS JOIN run_key_index',
    owner: 'k.run',
    newest: 's.segment DESC, k.run DESC',
  },
];

/** Only one connection writes, so runs are committed in the order of their rows. */
export const commitOrder: CommitOrder = {
  column: 'seq',
  isSettled: 'true',
  end: '(SELECT coalesce(max(seq), 0) FROM runs)',
  joins: {
    at: 'j.position',
    isSettled: 'true',
    number: 'j.joined',
    end: '(SELECT coalesce(max(joined), 0) FROM run_deliveries)',
  },
};
