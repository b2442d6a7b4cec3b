import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { deliveryLog } from './conformance/delivery-log.ts';
import { newPaths } from './files.ts';

const newPath = newPaths();

// The settings allow four combinations of places for log and database; these are the other two.
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
