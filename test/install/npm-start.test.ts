import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createWorkspace, githubManifest } from '../e2e/service.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** Processes are started here, on machines that have other things to do. */
const TIME_LIMIT_MS = 60_000;

interface Npm {
  readonly child: ChildProcess;
  lines: string[];
  /** Resolves once npm and everything it started have closed the output: nothing is left behind. */
  readonly hasEnded: Promise<[code: number | null, signal: NodeJS.Signals | null]>;
}

/** `npm start` as the leader of a process group, without the build that comes before it. */
async function npmStart(): Promise<Npm> {
  const workspace = await createWorkspace();
  onTestFinished(() => workspace.remove());
  await workspace.writeManifest('push.json', githubManifest());
  const child = spawn('npm', ['start', '--ignore-scripts'], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: workspace.folder,
      SLUICE_PORT: '0',
      SLUICE_DATABASE_URL: `sqlite:${workspace.folder}/sluice.db`,
      SLUICE_MANIFESTS: `${workspace.folder}/manifests`,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  const hasEnded = once(child, 'close') as Npm['hasEnded'];
  const lines: string[] = [];
  await new Promise<void>((listens, failed) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line);
      if (line.startsWith('Sluice listens on ')) listens();
    });
    void hasEnded.then(() => failed(new Error(lines.join('\n'))));
  });
  return { child, lines, hasEnded };
}

describe.skipIf(process.platform === 'win32')('npm start', { timeout: TIME_LIMIT_MS }, () => {
  it('passes SIGTERM on to the service, and ends with it', async () => {
    const { child, lines, hasEnded } = await npmStart();
    child.kill('SIGTERM');
    expect(await hasEnded).toEqual([0, null]);
    expect(lines.filter((line) => line.includes('"msg":"stopped"'))).toHaveLength(1);
  });

  it('stops in order where a terminal signals npm and the service alike', async () => {
    const { child, lines, hasEnded } = await npmStart();
    process.kill(-(child.pid ?? 0), 'SIGINT');
    expect(await hasEnded).toEqual([0, null]);
    expect(lines.filter((line) => line.includes('"msg":"stopped"'))).toHaveLength(1);
  });
});
