import { refuseOldNode } from './node-version.ts';

refuseOldNode();
const { serve } = await import('#service');
await serve();
