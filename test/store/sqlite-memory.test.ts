import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { storeConformance } from './conformance.ts';

storeConformance('SQLite in memory', () => openSqliteStore({ path: ':memory:' }));
