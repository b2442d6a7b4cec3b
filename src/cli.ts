#!/usr/bin/env node
import { refuseOldNode } from './node-version.ts';

refuseOldNode();
const { runCommandLine } = await import('#commands');
await runCommandLine();
