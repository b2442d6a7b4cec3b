import { storeConformance } from './conformance.ts';
import { openKind } from './stores.ts';

// The kinds of stores differ in how they receive and keep deliveries; a proof runs all suites on all of them.
storeConformance('SQLite in memory', () => openKind('log in the database', ':memory:'));
