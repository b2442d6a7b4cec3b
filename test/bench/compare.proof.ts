import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');

it('a pull request is told the bytes of its package and the CPU of a delivery, next to its base', async () => {
  const quick = ['--seconds', '1', '--rounds', '1', '--warm-up', '100', '--repeats', '0'];
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', 'jiti/register', 'test/bench/compare.ts', '--base', ROOT, ...quick],
    // Without the variables that mark a child process as part of a test.
    { cwd: ROOT, env: { PATH: process.env.PATH, HOME: process.env.HOME } },
  );
  expect(stdout).toMatch(/^### Size and speed\n\n\| \| base \| this \| change \|\n/);
  const rows = [...stdout.matchAll(/^\| ([^|]+) \| ([\d ]+) \| ([\d ]+) \| (\S+) % \|$/gm)];
  const figures = rows.map(([, name, base, head, change]) => ({ name, isSame: base === head, change }));
  expect(figures.slice(0, 3)).toEqual(
    ['bytes packed', 'bytes unpacked', 'files packed'].map((name) => ({ name, isSame: true, change: '+0.0' })),
  );
  expect(figures[3]).toMatchObject({
    name: 'CPU µs a delivery with its run',
    change: expect.stringMatching(/\d\.\d$/),
  });
  expect(Number(rows[3]?.[3]?.replace(' ', ''))).toBeGreaterThan(10);
});
