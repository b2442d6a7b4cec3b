import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { storeConformance } from './conformance.ts';
import { newPaths } from './files.ts';

const newPath = newPaths();

storeConformance('SQLite in a file', () => openSqliteStore({ path: newPath() }));
