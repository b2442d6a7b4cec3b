import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { buffer, text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { runCli } from './cli.ts';
import { githubManifest } from './service.ts';
import { useService } from './used-service.ts';

const CLI = resolve(import.meta.dirname, '../../dist/cli.js');
const TOKEN = 'a-token-of-the-dashboard';
const env = { SLUICE_DASHBOARD_TOKEN: TOKEN };
/** With the running service's settings, because the command sends their credentials to no other service. */
const own = () => ({ ...env, SLUICE_PORT: new URL(service.url).port });

const { workspace, service } = useService(async ({ writeManifest }) => {
  await writeManifest('push.json', githubManifest({ inputs: { webhookEnforcementMode: 'Enforce' } }));
  await writeManifest('other.json', {
    id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a99',
    version: '1',
    triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'other' } } },
    steps: { a: { type: 'NoOp' } },
  });
  return env;
});

const send = (...args: string[]) => runCli(workspace, ['send', '--to', service.url, ...args]);

/** Starts to listen; resolves when the command listens. */
async function listen(...args: string[]) {
  const child = spawn(process.execPath, [CLI, 'listen', '--to', service.url, ...args], {
    cwd: workspace.folder,
    env: { PATH: process.env.PATH ?? '', ...own() },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill());
  const exited = once(child, 'exit');
  const printed = text(child.stdout);
  for await (const line of createInterface({ input: child.stderr })) {
    if (!line.startsWith('Listening to ')) throw new Error(line);
    break;
  }
  return async () => {
    const [code] = await exited;
    return { code, stdout: await printed };
  };
}

describe('sluice listen', () => {
  it('shows the deliveries of a webhook with their verdicts, and those of no other', async () => {
    const ended = await listen('push', '--count', '2');
    await send('other');
    await send('push');
    await send('push', '--wrong-key');
    const { code, stdout } = await ended();
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^\d\d:\d\d:\d\d {2}push {2}200 {2}accepted {2}\d+ bytes from 127\.0\.0\.1 {2}run [0-9a-f-]{36}\n/,
    );
    expect(stdout).toMatch(/\n\S+ {2}push {2}401 {2}signature_mismatch {2}.*\n {10}no signature matches/);
    expect(stdout).not.toContain('other');
  });

  it('shows what the API says of each as a line of JSON', async () => {
    const ended = await listen('--json', '--count', '1');
    await send('other');
    const { stdout } = await ended();
    expect(JSON.parse(stdout)).toMatchObject({ statusCode: 200, triggerKey: 'hook', bodyBytes: expect.any(Number) });
  });

  it('names the webhooks that there are, and needs the credentials', async () => {
    const unknown = await runCli(workspace, ['listen', 'pull', '--to', service.url], { env: own() });
    expect(unknown).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no webhook "pull"; '),
    });
    const stranger = await runCli(workspace, ['listen', 'push', '--to', service.url]);
    expect(stranger).toMatchObject({ code: 2, stderr: expect.stringContaining('give --token or --user') });
  });
});

describe('sluice replay', () => {
  /** Another service that accepts and records requests. */
  async function receiver() {
    const got: { headers: Record<string, unknown>; body: Buffer; url: string | undefined }[] = [];
    const server = createServer(async (request, response) => {
      got.push({ url: request.url, headers: request.headers, body: await buffer(request) });
      response.writeHead(202).end('taken');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, got };
  }

  const newest = async (): Promise<{ id: string }> => {
    const [first] = await getNewest();
    if (first === undefined) throw new Error('there is no delivery');
    return first;
  };
  const getNewest = () =>
    fetch(`${service.url}/flows/api/webhooks/recent?take=1`, { headers: { authorization: `Bearer ${TOKEN}` } }).then(
      (response) => response.json() as Promise<{ id: string }[]>,
    );

  it('sends the exact bytes and headers to another service, but none whose value was not kept', async () => {
    const body = `{"long": "${'x'.repeat(100_000)}" , "ünicode":1}\r\n`;
    const sent = await runCli(
      workspace,
      [
        'send',
        'push',
        '--to',
        service.url,
        '--body',
        '-',
        '--header',
        'X-GitHub-Event: push',
        '--header',
        'Cookie: a=b',
      ],
      { input: body },
    );
    expect(sent.code).toBe(0);
    const { url, got } = await receiver();
    const { id } = await newest();
    const replayed = await runCli(workspace, ['replay', id, '--from', service.url, '--to', url], { env: own() });
    expect(replayed).toMatchObject({ code: 0, stdout: '202 taken\n' });
    expect(replayed.stderr).toMatch(/not sent, because the source does not store the values: .*cookie/);
    expect(got).toHaveLength(1);
    expect(got[0]?.url).toBe('/flows/api/webhook/push');
    expect(got[0]?.body.toString()).toBe(body);
    expect(got[0]?.headers).toMatchObject({ 'x-github-event': 'push', 'content-type': 'application/json' });
    expect(got[0]?.headers['x-hub-signature-256']).toMatch(/^sha256=/);
    expect(Object.keys(got[0]?.headers ?? {})).not.toContain('cookie');
    expect(JSON.stringify(got[0]?.headers)).not.toContain(TOKEN);
  });

  it('says why the same delivery is refused where it was accepted before, and changes nothing at the source', async () => {
    await send('push');
    const { id } = await newest();
    const { code, stdout, stderr } = await runCli(
      workspace,
      ['replay', id, '--from', service.url, '--to', service.url],
      { env: own() },
    );
    expect(stdout).toMatch(/^409 .*nonce_replayed/);
    expect(stderr).toContain('already accepted this delivery');
    expect(code).toBe(1);
  });

  it('takes an address with a path as it is, and prints the request alone with --dry-run', async () => {
    await send('other', '--body', '-');
    const { id } = await newest();
    const { url, got } = await receiver();
    const args = ['replay', id, '--from', service.url, '--to', `${url}/hooks/in?a=1`];
    const dry = await runCli(workspace, [...args, '--dry-run'], { env: own() });
    expect(dry).toMatchObject({ code: 0, stdout: expect.stringMatching(new RegExp(`^POST ${url}/hooks/in\\?a=1\n`)) });
    expect(got).toEqual([]);
    await runCli(workspace, args, { env: own() });
    expect(got[0]?.url).toBe('/hooks/in?a=1');
  });

  it.each([
    ['an id that is none', ['nope'], 'is not the id of a delivery'],
    ['an unknown delivery', ['0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a99'], 'There is no delivery with the id'],
  ])('says what is wrong with %s', async (_, args, message) => {
    const { code, stderr } = await runCli(workspace, ['replay', '--from', service.url, ...args], { env: own() });
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
