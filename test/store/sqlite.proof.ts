import { openMemoryStore } from '../../src/store/sqlite/memory.ts';
import { companyConformance, storeConformance } from './conformance.ts';
import { newPaths } from './files.ts';
import { KINDS_OF_STORES, openKind } from './stores.ts';

const newPath = newPaths();

// Each kind of store once, half of them in files: how rows are stored does not depend on where.
for (const [index, kind] of KINDS_OF_STORES.entries()) {
  const isInFile = index % 3 === 0;
  storeConformance(`SQLite in ${isInFile ? 'a file' : 'memory'}, ${kind}`, () =>
    openKind(kind, isInFile ? newPath() : ':memory:'),
  );
}

storeConformance("SQLite in the caller's thread", async () => openMemoryStore());

companyConformance('SQLite in memory', () => openKind('log in the database', ':memory:'));
