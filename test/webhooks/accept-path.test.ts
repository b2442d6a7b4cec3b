import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const SCRIPT = resolve(import.meta.dirname, '../bench/accept-path.mjs');
/** A reader of a delivery's way has to keep all of them in mind. */
const MOST_MODULES = 38;

it(`leads an accepted delivery through at most ${MOST_MODULES} modules of the main thread`, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT]);
  const modules: string[] = JSON.parse(stdout);
  expect(modules).toContain('webhooks/receive.js');
  expect(modules.length, modules.join('\n')).toBeLessThanOrEqual(MOST_MODULES);
});
