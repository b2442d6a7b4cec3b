import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { npmStart } from './npm-start.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** The tests start processes, on machines that are busy with other work. */
const TIME_LIMIT_MS = 60_000;

describe.skipIf(process.platform === 'win32')('npm start', { timeout: TIME_LIMIT_MS }, () => {
  const start = () => npmStart(ROOT);

  it('passes SIGTERM on to the service, and ends with it', async () => {
    const { child, lines, hasEnded } = await start();
    child.kill('SIGTERM');
    expect(await hasEnded).toEqual([0, null]);
    expect(lines.filter((line) => line.includes('"msg":"stopped"'))).toHaveLength(1);
  });

  it('stops in order where a terminal signals npm and the service alike', async () => {
    const { child, lines, hasEnded } = await start();
    process.kill(-(child.pid ?? 0), 'SIGINT');
    expect(await hasEnded).toEqual([0, null]);
    expect(lines.filter((line) => line.includes('"msg":"stopped"'))).toHaveLength(1);
  });
});
