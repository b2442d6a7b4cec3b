import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { GITHUB_SECRET } from '../e2e/service.ts';
import { type Candidate, candidateOf } from './candidates.ts';

/** Another program that receives webhooks; none of them stores anything. */
interface Peer {
  readonly name: string;
  readonly make: () => Promise<Candidate>;
}

interface Peers {
  readonly rows: readonly Peer[];
  remove(): Promise<void>;
}

/** Versions that are known to work with the scripts in `peers/`. */
const PACKAGES = ['@octokit/webhooks@14.2.0', 'node-red@5.0.7'];

/** Installs the peers that come from npm into a temporary folder, and says what it does. */
export async function installPeers(): Promise<Peers> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-peers-'));
  const rows: Peer[] = [];
  if (spawnSync('webhook', ['-version']).error !== undefined) {
    console.log('adnanh/webhook: not installed (no program named webhook); left out');
  } else {
    rows.push(
      { name: 'adnanh/webhook: verifies only', make: () => adnanhWebhook(folder, false) },
      { name: 'adnanh/webhook: verifies, starts /bin/true', make: () => adnanhWebhook(folder, true) },
    );
  }
  console.log(`npm install ${PACKAGES.join(' ')} into ${folder}`);
  await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
  const args = ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--save-exact', ...PACKAGES];
  const { status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' });
  if (status === 0) {
    rows.push(
      { name: '@octokit/webhooks: verifies only', make: () => nodePeer(folder, 'octokit.mjs') },
      { name: 'Node-RED: a function verifies', make: () => nodePeer(folder, 'node-red.mjs') },
    );
  } else {
    console.log(`@octokit/webhooks, Node-RED: npm could not install them; left out\n${stderr}`);
  }
  return { rows, remove: () => rm(folder, { recursive: true, force: true }) };
}

async function nodePeer(folder: string, script: string): Promise<Candidate> {
  await copyFile(join(import.meta.dirname, 'peers', script), join(folder, script));
  const child = spawn(process.execPath, [script], {
    cwd: folder,
    env: { PATH: process.env.PATH, PEER_SECRET: GITHUB_SECRET, NODE_ENV: 'production' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return candidateOf(child, `${String(line).trim()}/hook`);
}

async function adnanhWebhook(folder: string, isRun: boolean): Promise<Candidate> {
  const signed = {
    match: {
      type: 'payload-hmac-sha256',
      secret: GITHUB_SECRET,
      parameter: { source: 'header', name: 'X-Hub-Signature-256' },
    },
  };
  // Verified, then turned away by the second rule: its answer is 200 too.
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
  const child = spawn('webhook', args, { stdio: 'ignore' });
  const url = `http://127.0.0.1:${port}/hook`;
  while (
    await fetch(url).then(
      () => false,
      () => child.exitCode === null,
    )
  )
    await setTimeout(50);
  return candidateOf(child, url);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port is free');
  return address.port;
}
