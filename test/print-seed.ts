import { SEED } from './chance.ts';

/** Prints the seed once in a run: `TEST_SEED` with this value repeats the tests' draws. */
export function setup(): void {
  process.stdout.write(`TEST_SEED=${SEED}\n`);
}
