import { signals as sql } from '../../migrations/0011-signals.ts';

// Earlier releases refuse the manifests that write any of it.
export const signals = { version: 11, name: 'signals', compatibleFrom: 1, locks: ['steps', 'signals'], sql };
