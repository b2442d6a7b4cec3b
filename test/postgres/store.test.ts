import type { Store } from '../../src/store/store.ts';
import { flows } from '../store/conformance/flows.ts';
import { nonces } from '../store/conformance/nonces.ts';
import { runSuites } from '../store/conformance.ts';
import { openEmpty } from './schemas.ts';

runSuites('PostgreSQL', () => openEmpty() as unknown as Promise<Store>, [flows, nonces]);
