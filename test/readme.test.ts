import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWorkspace, type Service, startService, type Workspace } from './e2e/service.ts';

const root = resolve(import.meta.dirname, '..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const CLI = join(root, 'dist/cli.js');

/** Ids, times and the state of a run that goes on differ each time. */
function shapeOf(output: string): string {
  return output
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
    .replace(/"\d{4}-\d\d-\d\dT[\d:.]+Z"|"completedAt":null/g, 'TIME')
    .replace(/"completedAt":TIME/g, 'TIME')
    .replace(/"status":"(Running|Succeeded)"/g, 'STATUS')
    .trim();
}

function consoleBlocks(): { command: string; output: string }[] {
  const blocks = [...readme.matchAll(/```console\n([\s\S]*?)```/g)].map((match) => match[1] ?? '');
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .filter((part) => part !== '')
      .map((part) => {
        const [command = '', ...output] = part.split('\n');
        return { command, output: output.join('\n') };
      }),
  );
}

describe('the README', () => {
  let workspace: Workspace;
  let service: Service;
  beforeAll(async () => {
    workspace = await createWorkspace();
    await cp(join(root, 'manifests'), join(workspace.folder, 'manifests'), { recursive: true });
    service = await startService(workspace);
  });
  afterAll(async () => {
    await service.stop('SIGTERM');
    await workspace.remove();
  });

  it('shows the two commands that everything starts with', () => {
    expect(readme).toContain('npm ci && npm start');
    expect(readme).toContain('npm ci && npm test');
  });

  it('shows what its commands really print', async () => {
    const blocks = consoleBlocks();
    expect(blocks.length).toBeGreaterThan(3);
    for (const { command, output } of blocks) {
      const here = command
        .replace('npx sluice send', `npx sluice send --to ${service.url}`)
        .replace('npx sluice', `"${process.execPath}" "${CLI}"`)
        .replaceAll('http://127.0.0.1:3000', service.url);
      // A refused delivery ends `sluice send` with code 1; what it printed is what counts here.
      const { stdout } = await promisify(execFile)('sh', ['-c', `${here} || true`], { cwd: workspace.folder });
      expect(shapeOf(stdout.replaceAll(service.url, 'http://127.0.0.1:3000')), command).toBe(shapeOf(output));
    }
  });

  it('shows a manifest that loads', async () => {
    const manifest = /```json\n([\s\S]*?)```/.exec(readme)?.[1] ?? '';
    const other = await createWorkspace();
    await other.writeManifest('orders.json', JSON.parse(manifest));
    const env = { PATH: process.env.PATH ?? '', SHOPIFY_CLIENT_SECRET: 'a', ERP_TOKEN: 'b' };
    const { stdout } = await promisify(execFile)(process.execPath, [CLI, 'check'], { cwd: other.folder, env });
    expect(stdout).toContain('1 flows can be deployed, 0 errors');
    await other.remove();
  });
});
