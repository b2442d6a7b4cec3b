import fc from 'fast-check';
import { SEED } from './chance.ts';

// Before each file: every property draws from the seed of the run.
fc.configureGlobal({ seed: SEED });
