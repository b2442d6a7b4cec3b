import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { eventually, getJson, type Service } from '../e2e/service.ts';

/** Someone else's program that sends webhooks, as a child process. */
export interface Publisher {
  /** The first group of the awaited line. */
  readonly found: string;
  /** All output so far, of both streams. */
  output(): string;
  stop(): Promise<void>;
}

interface PublisherOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The line that says that it is ready; the first group is `found`. */
  readonly until: RegExp;
}

export async function startPublisher(
  command: string,
  args: readonly string[],
  { cwd, env = {}, until }: PublisherOptions,
): Promise<Publisher> {
  const child = spawn(command, args, {
    cwd,
    env: { PATH: process.env.PATH ?? '', HOME: cwd, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const exited = once(child, 'exit');
  const found = await new Promise<string>((ready, failed) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        const [, part] = until.exec(line) ?? [];
        if (part !== undefined) ready(part);
      });
    }
    exited.then(([code]) => failed(new Error(`${command} ended with ${code}:\n${lines.join('\n')}`)), failed);
  });
  return {
    found,
    output: () => lines.join('\n'),
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

const INSTALL_MS = 300_000;

/** npm's error codes if no registry can be reached. */
const UNREACHABLE = /code (ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ERR_SOCKET_TIMEOUT|ENOTCACHED)/;

/**
 * A new folder with these packages and our programs that configure them; undefined if no registry can be reached.
 * Rejects if npm fails for another reason.
 */
export async function installPrograms(
  packages: readonly string[],
  programs: Readonly<Record<string, string>>,
): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-publisher-'));
  await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
  for (const [name, text] of Object.entries(programs)) await writeFile(join(folder, name), text);
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1'];
  try {
    await promisify(execFile)('npm', ['install', ...options, ...packages], { cwd: folder, timeout: INSTALL_MS });
    return folder;
  } catch (error) {
    await rm(folder, { recursive: true });
    const { stderr = '' } = error as { stderr?: string };
    if (UNREACHABLE.test(stderr)) return undefined;
    throw error;
  }
}

interface SeenDelivery {
  readonly id: string;
  readonly statusCode: number;
  readonly reason: string | null;
  readonly scheme: string | null;
  readonly outcome: string | null;
  readonly runId: string | null;
  readonly searchKeys: Readonly<Record<string, string>>;
}

interface SeenRun {
  readonly status: string;
  readonly triggerBody: unknown;
  readonly steps: readonly { readonly stepKey: string; readonly status: string; readonly output: unknown }[];
}

/** The deliveries in the log, oldest first, once there are so many. */
export async function deliveriesOf({ url }: Service, count: number): Promise<SeenDelivery[]> {
  const found = await eventually(
    () => getJson<SeenDelivery[]>(`${url}/flows/api/webhooks/recent`),
    ({ length }) => length >= count,
  );
  return found.toReversed();
}

/** The first matching delivery in the log, once there is one; senders decide how many deliveries they make. */
export async function deliveryThat(service: Service, isSo: (delivery: SeenDelivery) => boolean): Promise<SeenDelivery> {
  const found = await eventually(
    () => deliveriesOf(service, 1),
    (deliveries) => deliveries.some(isSo),
  );
  return found.find(isSo) as SeenDelivery;
}

/** A run once it has ended. */
export function endedRun({ url }: Service, runId: string | null): Promise<SeenRun> {
  return eventually(
    () => getJson<SeenRun>(`${url}/flows/api/runs/${runId}`),
    ({ status }) => status !== 'Running',
  );
}
