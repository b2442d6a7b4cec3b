#!/usr/bin/env node
import { refuseOldNode } from './node-version.ts';
import { prepareNode } from './prepare-node.ts';

refuseOldNode();
prepareNode();
const { runCommandLine } = await import('#commands');
await runCommandLine();
