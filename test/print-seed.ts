import { SEED } from './chance.ts';

/** Once in a run: `TEST_SEED` with this value repeats what the tests draw. */
export function setup(): void {
  process.stdout.write(`TEST_SEED=${SEED}\n`);
}
