import { AsyncLocalStorage } from 'node:async_hooks';
import { onTestFinished, TestRunner } from 'vitest';

type End = () => unknown;

const endsOfFile: End[] = [];
const sharing = new AsyncLocalStorage<true>();

/** Ends a test's resources with that test, and those of hooks for several tests with their file; the last first. */
export function endLater(end: End): void {
  if (TestRunner.getCurrentTest() === undefined || sharing.getStore()) endsOfFile.push(end);
  else onTestFinished(async () => void (await end()));
}

/** Opens something in the first test that needs it, for all tests of the file. */
export function openForFile<Opened>(open: () => Opened): Opened {
  return sharing.run(true, open);
}

/** Ends everything that the file opened. */
export async function endFile(): Promise<void> {
  for (const end of endsOfFile.splice(0).reverse()) await end();
}
