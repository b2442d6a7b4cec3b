import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const MIB = 1_048_576;
const PREPARE_NODE = pathToFileURL(resolve(import.meta.dirname, '../dist/prepare-node.js')).href;

/** Makes a megabyte per turn, keeps the last 16, and then prints the size of half of the young generation. */
const LOADED = `
  import { setImmediate as turn } from 'node:timers/promises';
  import v8 from 'node:v8';
  import { balanceYoungGeneration, prepareNode } from '${PREPARE_NODE}';
  prepareNode();
  balanceYoungGeneration();
  const kept = [];
  for (let at = 0; at < 200; at += 1) {
    kept[at % 16] = Array.from({ length: 20_000 }, (_, index) => ({ index }));
    await turn();
  }
  const { space_used_size: used, space_available_size: left } = v8
    .getHeapSpaceStatistics()
    .find(({ space_name: name }) => name === 'new_space');
  process.stdout.write(String(used + left));
`;

it('lets the young generation grow with the load, and to 16 MiB at most', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', LOADED]);

  expect(Number(stdout)).toBeGreaterThan(4 * MIB);
  expect(Number(stdout)).toBeLessThanOrEqual(16 * MIB);
});
