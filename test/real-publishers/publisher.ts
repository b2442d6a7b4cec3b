import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { eventually, getJson, type Service } from '../e2e/service.ts';

/** A program of somebody else that sends webhooks, as a child process. */
export interface Publisher {
  /** What the line said that was waited for. */
  readonly found: string;
  /** Everything written so far, both streams. */
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

/** The deliveries in the log, the oldest first, once there are so many. */
export async function deliveriesOf({ url }: Service, count: number): Promise<SeenDelivery[]> {
  const found = await eventually(
    () => getJson<SeenDelivery[]>(`${url}/flows/api/webhooks/recent`),
    ({ length }) => length >= count,
  );
  return found.toReversed();
}

/** A run once it has ended. */
export function endedRun({ url }: Service, runId: string | null): Promise<SeenRun> {
  return eventually(
    () => getJson<SeenRun>(`${url}/flows/api/runs/${runId}`),
    ({ status }) => status !== 'Running',
  );
}
