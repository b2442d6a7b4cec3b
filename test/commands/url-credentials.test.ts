import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { maskRefusedUrl } from '../../src/manifest/mask.ts';
import { type CliResult, runCli } from '../e2e/cli.ts';
import { createWorkspace, githubManifest, type Workspace } from '../e2e/service.ts';

const PASSWORD = 's3cr3tpw';
const ID = '01900000-0000-7000-8000-000000000000';
/** With a slash in its password, the text is not a URL. */
const REFUSED = `http://me:${PASSWORD}/x@127.0.0.1:9`;

let workspace: Workspace;
beforeAll(async () => {
  workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
});

const run = (...args: string[]) => runCli(workspace, args);

function expectMasked({ code, stdout, stderr }: CliResult, expected: { code: number; shown: string }): void {
  expect(stdout + stderr).not.toContain(PASSWORD);
  expect(stdout + stderr).toContain(expected.shown);
  expect(code).toBe(expected.code);
}

async function listening(answer: RequestListener): Promise<number> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

describe('a command prints no credentials of a URL', () => {
  const url = `http://me:${PASSWORD}@127.0.0.1:9`;

  it('that send cannot send to', async () => {
    const shown = '--to "http://***@127.0.0.1:9": give the credentials with --header';
    expectMasked(await run('send', 'push', '--to', url), { code: 2, shown });
    expectMasked(await run('send', 'push', '--to', url, '--dry-run'), { code: 2, shown });
  });

  it.each([REFUSED, `http:me:${PASSWORD}@a.example:80`, `me:${PASSWORD}@a.example`])('in %s, masked', (text) => {
    expect(maskRefusedUrl(text)).toMatch(/^(http:\/\/)?\*\*\*@/);
    expect(maskRefusedUrl(text)).not.toContain(PASSWORD);
  });

  it('that is refused', async () => {
    const commands = [
      ['send', 'push', '--to', REFUSED],
      ['status', '--to', REFUSED],
      ['check', '--against', REFUSED],
      ['check', '--against', `postgres:me:${PASSWORD}@127.0.0.1`],
    ];
    for (const args of commands) expectMasked(await run(...args), { code: 2, shown: '***@127.0.0.1' });
  });

  it('that deliveries are sent to by replay and listen', async () => {
    const delivery = { flowId: null, triggerKey: null, receivedAt: '2026-01-01T00:00:00Z', headers: {} };
    let isThere = false;
    const service = await listening(({ url: path = '' }, response) => {
      if (path.endsWith('/consumers/me')) response.end('{"cursor":"a","at":"2026-01-01T00:00:00Z"}');
      else if (path.endsWith('/deliveries')) {
        const one = { ...delivery, cursor: 'b', deliveryId: ID, runId: ID, flowName: 'push', body: '' };
        response.end(JSON.stringify({ deliveries: [one], upTo: 'b', gone: null }));
      } else if (path.includes('/advance')) response.end('{}');
      else if (path.endsWith('/body')) response.end('x');
      else if (path.includes('/webhooks/'))
        response.end(JSON.stringify({ ...delivery, statusCode: 200, reason: null, requestUrl: null }));
      else response.end('[]');
    });
    const target = await listening((request, response) => {
      if (isThere) response.end();
      else request.destroy();
      isThere = true;
    });
    const from = `http://127.0.0.1:${service}`;
    const to = `http://me:${PASSWORD}@127.0.0.1:${target}/in?token=${PASSWORD}&page=1`;
    const forwarded = await run('listen', '--to', from, '--as', 'me', '--count', '1', '--forward', to);
    const shown = `http://***@127.0.0.1:${target}/in?token=***&page=***`;
    expectMasked(forwarded, { code: 0, shown: `POST ${shown}: ` });
    expectMasked(forwarded, { code: 0, shown: `to ${shown} as me` });
    isThere = false;
    const replay = ['replay', ID, '--from', from, '--to', to];
    expectMasked(await run(...replay), { code: 2, shown });
    // A query is part of the printed request.
    const request = `POST http://***@127.0.0.1:${target}/in?token=***&page=1\n`;
    expectMasked(await run(...replay, '--dry-run'), { code: 0, shown: request });
    const refused = { code: 2, shown: '***@127.0.0.1' };
    expectMasked(await run('listen', '--to', from, '--forward', REFUSED), refused);
    expectMasked(await run('replay', ID, '--from', from, '--to', REFUSED), refused);
  });

  it('of SLUICE_PUBLIC_URL in what new prints', async () => {
    const env = { SLUICE_PUBLIC_URL: `https://me:${PASSWORD}@hooks.example` };
    const written = await runCli(workspace, ['new', '--publisher', 'Stripe', '--no-deploy'], { env });
    expectMasked(written, { code: 0, shown: 'https://***@hooks.example/flows/api/webhook/stripe' });
  });
});
