import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { GITHUB_SECRET } from '../e2e/service.ts';
import { freePort } from '../free-port.ts';
import { type Candidate, candidateOf, startScript } from './candidates.ts';

/** Another program that receives webhooks. */
export interface Peer {
  readonly name: string;
  /** The packages that npm installs for it, in versions known to work with the scripts in `peers/`. */
  readonly packages: readonly string[];
  /** Starts it in the folder with the packages and the scripts. */
  readonly make: (folder: string) => Promise<Candidate>;
}

interface InstalledPeers {
  readonly rows: readonly { readonly name: string; readonly make: () => Promise<Candidate> }[];
  /** A line for each peer that could not be installed. */
  readonly missing: readonly string[];
  remove(): Promise<void>;
}

/** Installs peers into a temporary folder and prints its progress. They are too large to be our dependencies. */
export async function installPeers(peers: readonly Peer[]): Promise<InstalledPeers> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-peers-'));
  await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
  await cp(join(import.meta.dirname, 'peers'), folder, { recursive: true });
  const missing: string[] = [];
  const installed = peers.filter(({ name, packages }) => {
    if (packages.length === 0) return true;
    process.stdout.write(`npm install ${packages.join(' ')} into ${folder}\n`);
    const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--save-exact', ...packages];
    const { status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' });
    if (status !== 0) missing.push(`${name}: npm could not install ${packages.join(' ')}\n${stderr}`);
    return status === 0;
  });
  return {
    rows: installed.map(({ name, make }) => ({ name, make: () => make(folder) })),
    missing,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** A peer that is a script in `peers/`. */
export async function scriptedPeer(folder: string, script: string, env: Record<string, string> = {}) {
  const server = await startScript(script, { cwd: folder, env: { PEER_SECRET: GITHUB_SECRET, ...env } });
  return { ...candidateOf(server, `${server.url}/hook`), origin: server.url };
}

/** Peers that verify and store nothing. */
export const VERIFYING_PEERS: readonly Peer[] = [
  { name: 'adnanh/webhook: verifies only', packages: [], make: (folder) => adnanhWebhook(folder, false) },
  { name: 'adnanh/webhook: verifies, starts /bin/true', packages: [], make: (folder) => adnanhWebhook(folder, true) },
  {
    name: '@octokit/webhooks: verifies only',
    packages: ['@octokit/webhooks@14.2.0'],
    make: (folder) => scriptedPeer(folder, 'octokit.mjs'),
  },
  {
    name: 'Node-RED: a function verifies',
    packages: ['node-red@5.0.7'],
    make: (folder) => scriptedPeer(folder, 'node-red.mjs'),
  },
];

async function adnanhWebhook(folder: string, isRun: boolean): Promise<Candidate> {
  const signed = {
    match: {
      type: 'payload-hmac-sha256',
      secret: GITHUB_SECRET,
      parameter: { source: 'header', name: 'X-Hub-Signature-256' },
    },
  };
  // Verified, then rejected by the second rule, also with 200.
  const never = { match: { type: 'value', value: 'never', parameter: { source: 'header', name: 'X-GitHub-Event' } } };
  const hook = {
    id: 'hook',
    'execute-command': '/bin/true',
    'trigger-rule': isRun ? signed : { and: [signed, never] },
  };
  const file = join(folder, `hooks-${isRun}.json`);
  await writeFile(file, JSON.stringify([hook]));
  const port = await freePort();
  const args = ['-hooks', file, '-ip', '127.0.0.1', '-port', String(port), '-urlprefix', ''];
  const startedAt = performance.now();
  const child = spawn('webhook', args, { stdio: 'ignore' });
  // Rejects if the program is missing.
  await once(child, 'spawn');
  const url = `http://127.0.0.1:${port}/hook`;
  await answering(url, () => child.exitCode === null);
  return candidateOf({ child, startedAt }, url);
}

/** Waits until a server gives any answer. */
export async function answering(url: string, isRunning: () => boolean): Promise<void> {
  for (;;) {
    const isThere = await fetch(url).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    if (!isRunning()) throw new Error(`${url} does not answer: its process has ended`);
    await setTimeout(50);
  }
}
