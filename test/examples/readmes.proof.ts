import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { commandsOf, follow } from '../docs/console.ts';
import { ROOT } from '../docs/pages.ts';
import { runCli } from '../e2e/cli.ts';
import { eventually } from '../e2e/service.ts';
import { copyExample, EXAMPLES } from './example.ts';

const EXECUTED = 'executed by test/examples/readmes.proof.ts';

type Copy = Awaited<ReturnType<typeof copyExample>>;

/** Runs a program in the example's folder until the test ends; returns a function that reads its output so far. */
function run({ folder }: Copy, ...args: string[]): () => Promise<readonly string[]> {
  const env = { PATH: process.env.PATH ?? '' };
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => lines.push(line));
  }
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  return async () => {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`it ended, and said:\n${lines.join('\n')}`);
    return lines;
  };
}

/** Where the example's services listen. */
function servicesUrl({ folder }: Copy): string {
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(readFileSync(join(folder, '.env'), 'utf8'))?.[0];
  if (url === undefined) throw new Error('the example calls nothing');
  return url;
}

/** Calls that the services of an example print after its README was followed. */
const CALLS: Record<(typeof EXAMPLES)[number], readonly string[]> = {
  'stripe-fulfilment': ['charge.succeeded', 'charge.refunded'],
  'github-ci': ['POST /builds', 'POST /deploys'],
  'slack-command': ['POST /deploys', 'staging-42 is deployed'],
  'shopify-erp': ['POST /orders'],
  'fan-out': ['POST /invoices', 'POST /reservations', 'POST /mails'],
  approvals: ['POST /repos/octocat/hello/deployments/1/statuses'],
};

describe.each(EXAMPLES)('the example %s', (name) => {
  const page = `examples/${name}/README.md`;

  it('has a README of one screen, which begins with one command', () => {
    const lines = readFileSync(join(ROOT, page), 'utf8').split('\n');
    expect(lines.length).toBeLessThanOrEqual(50);
    expect(lines.slice(0, 12)).toContain(`npm run example ${name}`);
  });

  it('has no manifest with an error or a weakness', async () => {
    const example = await copyExample(name);
    const { code, stdout } = await runCli(example, ['check'], { env: { SLUICE_STRICT_MANIFESTS: 'true' } });
    expect(stdout).toMatch(/^\d flows can be deployed, 0 errors, 0 warnings/m);
    expect(code).toBe(0);
  });

  it('does what its README shows', async () => {
    const example = await copyExample(name);
    let told = run(example, join(example.examples, 'start.mjs'), name);
    const said = (part: string) => eventually(told, (all) => all.some((line) => line.includes(part)));
    await said('Sluice listens on');
    const place = { folder: example.folder, host: new URL(servicesUrl(example)).host };
    await follow(commandsOf(page, EXECUTED), place);
    if (name === 'shopify-erp') {
      told = run(example, '--env-file=.env', 'services.mjs');
      await said('erp  listens on');
      await follow(commandsOf(page, `${EXECUTED}, with the ERP started again`), place);
    }
    for (const call of CALLS[name]) await said(call);
  });
});

it('tells which examples there are, if the name is none of them', async () => {
  const child = spawn(process.execPath, [join(ROOT, 'examples/start.mjs'), 'nothing'], { stdio: 'pipe' });
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  expect(code).toBe(2);
  for (const name of EXAMPLES) expect(said).toContain(name);
});
