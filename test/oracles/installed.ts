import { isInstalled } from './lock.ts';

// Every module of this folder imports this one first: a test that needs a package says what to do, instead of what Node misses.
if (!isInstalled())
  throw new Error('The packages of test/oracles are missing or outdated: `npm run oracles` installs them.');
