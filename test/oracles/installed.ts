import { isInstalled } from './lock.ts';

// Every module here imports this first, so that a test without its package says what to do, not what Node misses.
if (!isInstalled())
  throw new Error('The packages of test/oracles are missing or outdated: `npm run oracles` installs them.');
