import { refuseOldNode } from './node-version.ts';
import { prepareNode } from './prepare-node.ts';

refuseOldNode();
prepareNode();
const { serve } = await import('#service');
await serve();
