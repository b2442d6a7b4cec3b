import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { heldBounds } from './conformance/held-bounds.ts';

heldBounds((held) => openSqliteStore({ path: ':memory:', held }));
