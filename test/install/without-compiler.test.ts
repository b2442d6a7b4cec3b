import { spawnSync } from 'node:child_process';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../temporary.ts';

const SCRIPTS = resolve(import.meta.dirname, '../../scripts');

/** A checkout after `npm ci --omit=dev`: without the compiler. */
async function checkout({ isBuilt }: { isBuilt: boolean }) {
  const folder = temporaryFolder('without-compiler');
  await cp(SCRIPTS, join(folder, 'scripts'), { recursive: true });
  if (isBuilt) {
    await mkdir(join(folder, 'dist/bundle'), { recursive: true });
    await writeFile(join(folder, 'dist/bundle/service.js'), '');
  }
  return (...flags: string[]) => {
    const { status, stderr } = spawnSync(process.execPath, [join(folder, 'scripts/build.mjs'), ...flags], {
      encoding: 'utf8',
    });
    return { status, stderr };
  };
}

const REFUSAL = /^Sluice is not built, and the compiler is not installed\. Run `npm ci` here, .*\n$/;

describe('where the compiler is not installed', () => {
  it.each(['--link', '--start'])('%s leaves a build that is there as it is', async (flag) => {
    const build = await checkout({ isBuilt: true });
    expect(build(flag)).toEqual({ status: 0, stderr: '' });
  });

  it('an install without a build succeeds, and says what is missing', async () => {
    const build = await checkout({ isBuilt: false });
    expect(build('--link')).toEqual({ status: 0, stderr: expect.stringMatching(REFUSAL) });
  });

  it('a start without a build is refused in one line', async () => {
    const build = await checkout({ isBuilt: false });
    expect(build('--start')).toEqual({ status: 1, stderr: expect.stringMatching(REFUSAL) });
  });

  it('a build is refused, also where an earlier one is there', async () => {
    const build = await checkout({ isBuilt: true });
    expect(build()).toEqual({ status: 1, stderr: expect.stringMatching(REFUSAL) });
  });
});
