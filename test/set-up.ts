import fc from 'fast-check';
import { afterAll } from 'vitest';
import { SEED } from './chance.ts';
import { endLeftChildren } from './e2e/children.ts';
import { endFile } from './ending.ts';
import { removeTemporaryFolders } from './temporary.ts';

// Before each file: every property draws from the seed of the run.
fc.configureGlobal({ seed: SEED });

// The hooks of files run before this one, so it sees what they left.
afterAll(async () => {
  try {
    await endFile();
  } finally {
    endLeftChildren();
    removeTemporaryFolders();
  }
});
