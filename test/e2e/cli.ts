import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { endsWithFile } from './children.ts';
import type { Workspace } from './service.ts';

const CLI = resolve(import.meta.dirname, '../../dist/cli.js');

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the built command line in the workspace's folder. */
export async function runCli(
  workspace: Workspace,
  args: readonly string[],
  { env = {}, input = '' }: { env?: Record<string, string>; input?: string } = {},
): Promise<CliResult> {
  const child = endsWithFile(
    spawn(process.execPath, [CLI, ...args], {
      cwd: workspace.folder,
      env: { PATH: process.env.PATH ?? '', ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    }),
  );
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { code, stdout, stderr };
}
