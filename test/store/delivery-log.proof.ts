import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { deliveryLog } from './conformance/delivery-log.ts';
import { newPaths } from './files.ts';

const newPath = newPaths();

// The other two places of a log and of its database: what an operator can set has four.
deliveryLog(
  'the delivery log in memory',
  (log) => openSqliteStore({ path: ':memory:', log: { inMemory: false, ...log } }),
  { isAllBounded: false },
);
deliveryLog(
  'the delivery log in memory, next to a file',
  (log) => openSqliteStore({ path: newPath(), log: { inMemory: true, ...log } }),
  { isAllBounded: true },
);
