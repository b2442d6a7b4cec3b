import { refuseOldNode } from './node-version.ts';

refuseOldNode();
const { serve } = await import('./serve.ts');
await serve();
