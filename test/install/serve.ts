import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';

interface Started {
  readonly url: string;
  readonly lines: readonly string[];
  /** Sends SIGTERM and yields how the process ended, once everything it started has closed the output. */
  stop(): Promise<[code: number | null, signal: NodeJS.Signals | null]>;
}

/** Starts a command that serves; rejects with what it printed where it ends before it listens. */
export async function serveWith(
  [command, ...args]: readonly [string, ...string[]],
  { cwd, env }: { cwd: string; env: Record<string, string> },
): Promise<Started> {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const hasEnded = once(child, 'close') as ReturnType<Started['stop']>;
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines: string[] = [];
  const url = await new Promise<string>((listens, failed) => {
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => {
        lines.push(line);
        const [, address] = /^Sluice listens on (\S+)$/.exec(line) ?? [];
        if (address !== undefined) listens(address);
      });
    }
    void hasEnded.then(() => failed(new Error(lines.join('\n'))));
  });
  return {
    url,
    lines,
    stop() {
      child.kill('SIGTERM');
      return hasEnded;
    },
  };
}
