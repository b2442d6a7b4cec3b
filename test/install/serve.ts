import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';

interface Started {
  readonly url: string;
  readonly lines: readonly string[];
  /** Interrupts it and its child processes, as a terminal does; returns its exit once all have closed the output. */
  stop(): Promise<[code: number | null, signal: NodeJS.Signals | null]>;
}

/** Starts a command that serves. If the command ends before it listens, rejects with its output. */
export async function serveWith(
  [command, ...args]: readonly [string, ...string[]],
  { cwd, env }: { cwd: string; env: Record<string, string> },
): Promise<Started> {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const signal = (name: NodeJS.Signals) => {
    if (child.pid !== undefined) process.kill(-child.pid, name);
  };
  const hasEnded = once(child, 'close') as ReturnType<Started['stop']>;
  let isRunning = true;
  void hasEnded.then(() => {
    isRunning = false;
  });
  onTestFinished(() => {
    if (isRunning) signal('SIGKILL');
  });
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
      signal('SIGINT');
      return hasEnded;
    },
  };
}
