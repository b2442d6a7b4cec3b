import { expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { openReplicas, runSql } from './schemas.ts';

test('a change whose notice was lost is found by the next look at the rows', async () => {
  const { schema, stores } = await openReplicas(['one']);
  const [one] = stores as [Store];
  const reader = one.changes[Symbol.asyncIterator]();
  for (const flowId of ['first', 'second']) {
    await runSql(`INSERT INTO "${schema}".changes (flow_id, kind) VALUES ($1, 'flow')`, [flowId]);
    expect((await reader.next()).value).toEqual({ kind: 'flow', flowId });
  }
});
