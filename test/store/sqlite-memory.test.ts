import { acceptingConformance, companyConformance, storeConformance } from './conformance.ts';
import { openKind } from './stores.ts';

storeConformance('SQLite in memory', () => openKind('log in the database', ':memory:'));

// The kinds of stores differ in how they take and keep deliveries; a proof runs all suites on all of them.
acceptingConformance('SQLite in memory, log in memory, sealed', () => openKind('log in memory, sealed', ':memory:'));

companyConformance('SQLite in memory', () => openKind('log in the database', ':memory:'));
