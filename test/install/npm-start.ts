import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { delimiter, dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { createWorkspace, githubManifest } from '../e2e/service.ts';

interface Npm {
  readonly child: ChildProcess;
  readonly lines: readonly string[];
  /** Resolves once npm and all its processes have closed the output: nothing is left running. */
  readonly hasEnded: Promise<[code: number | null, signal: NodeJS.Signals | null]>;
}

/** `npm start` in a checkout, as the leader of a process group; resolves once the service listens. */
export async function npmStart(checkout: string, flags: readonly string[] = []): Promise<Npm> {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const child = spawn('npm', ['start', ...flags], {
    cwd: checkout,
    env: {
      // The Node that runs the test, if the checkout has no own Node.
      PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
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
