import { storeConformance } from './conformance.ts';
import { newPaths } from './files.ts';
import { KINDS_OF_STORES, openKind } from './stores.ts';

const newPath = newPaths();
for (const kind of KINDS_OF_STORES) {
  storeConformance(`SQLite in a file, ${kind}`, () => openKind(kind, newPath()));
  storeConformance(`SQLite in memory, ${kind}`, () => openKind(kind, ':memory:'));
}
