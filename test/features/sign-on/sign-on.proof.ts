import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server, request as send } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createWorkspace,
  eventually,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from '../../e2e/service.ts';
import { freePort } from '../../free-port.ts';

/*
 * The proxy and the configuration of docs/secure.md, in front of the built service. The authenticator is a local one:
 * like a real one, it knows people by a cookie and names them in the headers that Authelia uses.
 */

const PLACES = ['/usr/bin/caddy', '/usr/local/bin/caddy'];
// A named path must exist: a run that relies on it must not skip these tests because of a wrong path.
const caddyPath = process.env.CADDY_PATH ?? PLACES.find((path) => existsSync(path));
const suite = describe.skipIf(caddyPath === undefined);
const title = `a proxy that signs people in${caddyPath === undefined ? ' (no Caddy here; name one in CADDY_PATH)' : ''}`;

const PEOPLE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  anna: { 'Remote-User': 'anna', 'Remote-Groups': 'staff,push team' },
  bert: { 'Remote-User': 'bert', 'Remote-Groups': 'staff' },
  // In the directory, but in no group: the authenticator sends no groups.
  carl: { 'Remote-User': 'carl' },
};
const TOKENS = [
  { group: 'push team', scopes: ['read', 'operate'], flows: ['push'] },
  { group: 'admins', scopes: ['read', 'operate', 'deploy'] },
  { name: 'script', token: 'script-4f1c9d7ab2e8', scopes: ['read'] },
];
type Headers = Readonly<Record<string, string | readonly string[]>>;

const RUN = '/flows/api/flows/0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10/trigger';
const ANOTHER = {
  id: '9d8c7b6a-2d9f-4e34-a083-3c4d5e6f7a8b',
  name: 'another flow',
  version: '1',
  triggers: {},
  steps: {},
};

const SPOOFED_NAMES = { 'Remote-User': 'admin', 'Remote-Groups': 'admins' } as const;
const HOSTILE: readonly (readonly [what: string, headers: Headers])[] = [
  ['both', SPOOFED_NAMES],
  ['the groups alone', { 'Remote-Groups': 'admins' }],
  ['the name alone', { 'Remote-User': 'admin' }],
  ['several of each', { 'Remote-User': ['admin', 'anna'], 'Remote-Groups': ['admins', 'push team'] }],
  ['in other letters', { 'REMOTE-USER': 'admin', 'rEmOtE-gRoUpS': 'admins' }],
  ['with underscores', { Remote_User: 'admin', Remote_Groups: 'admins' }],
  ['that are taken out on the way', { ...SPOOFED_NAMES, connection: 'close, Remote-User, Remote-Groups' }],
  ['of which the groups are taken out on the way', { ...SPOOFED_NAMES, connection: 'close, Remote-Groups' }],
  ['with an address of the proxy', { ...SPOOFED_NAMES, 'X-Forwarded-For': '127.0.0.1', Forwarded: 'for=127.0.0.1' }],
];

let workspace: Workspace;
let service: Service;
let authenticator: Server;
let caddy: ChildProcess;
let proxy: number;

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly location: string | undefined;
}

interface Sent {
  readonly port?: number;
  readonly method?: string;
  readonly headers?: Headers;
  readonly body?: string;
  /** Another address of this machine than the proxy's. */
  readonly localAddress?: string;
}

function ask(path: string, { port = proxy, method = 'GET', headers = {}, body = '', localAddress }: Sent = {}) {
  return new Promise<Answer>((resolve, reject) => {
    const options = { port, host: '127.0.0.1', method, path, localAddress, headers: { ...headers } as never };
    const sent = send(options, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, body: text, location: answer.headers.location }),
      );
    });
    sent.on('error', reject).end(body);
  });
}

/** For requests that Node would not send: writes bytes as given, returns the status. */
async function askRaw(port: number, lines: readonly string[], localAddress?: string): Promise<number> {
  const socket = connect({ port, host: '127.0.0.1', ...(localAddress !== undefined && { localAddress }) });
  // Not ended: Caddy takes a half-closed connection for a client that wants no answer.
  socket.write(`${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`);
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]);
}

const as = (name: string, headers: Headers = {}): Headers => ({ cookie: `signed-in=${name}`, ...headers });
const servicePort = () => Number(new URL(service.url).port);

/** The configuration shown on the page, with this test's addresses. */
async function documentedConfiguration(ports: { proxy: number; authenticator: number }): Promise<string> {
  const page = await readFile(join(import.meta.dirname, '../../../docs/secure.md'), 'utf8');
  const [, shown] = /```caddyfile\n([\s\S]+?)```/.exec(page) ?? [];
  if (shown === undefined) throw new Error('docs/secure.md shows no configuration of Caddy');
  const own = shown
    .replaceAll('127.0.0.1:3000', `127.0.0.1:${servicePort()}`)
    .replaceAll('127.0.0.1:9091', `127.0.0.1:${ports.authenticator}`)
    .replace('sluice.example.com', `http://127.0.0.1:${ports.proxy}`);
  expect(own).not.toMatch(/:(3000|9091)\b|example\.com/);
  return `{\n\tadmin off\n\tauto_https off\n}\n${own}`;
}

suite(title, () => {
  beforeAll(async () => {
    workspace = await createWorkspace();
    await workspace.writeManifest('push.json', githubManifest());
    await workspace.writeManifest('another.json', ANOTHER);
    await writeFile(join(workspace.folder, 'tokens.json'), JSON.stringify(TOKENS));
    service = await startService(workspace, {
      SLUICE_ENFORCEMENT_MODE: 'Enforce',
      SLUICE_TOKENS: 'tokens.json',
      SLUICE_AUTH_USER_HEADER: 'Remote-User',
      SLUICE_AUTH_GROUPS_HEADER: 'Remote-Groups',
      SLUICE_TRUSTED_PROXIES: '127.0.0.1',
    });
    authenticator = createServer(({ headers }, response) => {
      const [, name = ''] = /signed-in=(\w+)/.exec(headers.cookie ?? '') ?? [];
      const person = PEOPLE[name];
      if (person === undefined) response.writeHead(302, { location: 'https://login.example.com/' }).end();
      else response.writeHead(200, person).end();
    }).listen(0, '127.0.0.1');
    await once(authenticator, 'listening');
    proxy = await freePort();
    const configuration = join(workspace.folder, 'Caddyfile');
    const ports = { proxy, authenticator: (authenticator.address() as AddressInfo).port };
    await writeFile(configuration, await documentedConfiguration(ports));
    caddy = spawn(caddyPath ?? '', ['run', '--config', configuration, '--adapter', 'caddyfile'], {
      env: {
        PATH: process.env.PATH,
        HOME: workspace.folder,
        XDG_DATA_HOME: workspace.folder,
        XDG_CONFIG_HOME: workspace.folder,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const lines: string[] = [];
    if (caddy.stderr !== null) createInterface({ input: caddy.stderr }).on('line', (line) => lines.push(line));
    await eventually(
      () => ask('/flows').catch(() => undefined),
      (answer) => {
        if (caddy.exitCode !== null) throw new Error(`Caddy ended:\n${lines.join('\n')}`);
        return answer !== undefined;
      },
    );
  });
  afterAll(async () => {
    caddy?.kill();
    authenticator?.close();
    await service?.stop('SIGTERM');
  });

  it('lets in who signed in there, with the rights of their groups, and the activity names them', async () => {
    const flows = await ask('/flows/api/flows', { headers: as('anna') });
    expect(JSON.parse(flows.body)).toEqual([expect.objectContaining({ name: 'push' })]);
    const headers = as('anna', { origin: `http://127.0.0.1:${proxy}`, 'sec-fetch-site': 'same-origin' });
    expect(await ask(RUN, { method: 'POST', headers })).toMatchObject({ status: 200 });
    const target = RUN.split('/').at(-2);
    const activity = await ask(`/flows/api/activity?target=${target}`, { headers: as('anna') });
    expect(JSON.parse(activity.body)).toContainEqual(
      expect.objectContaining({ actor: 'anna', action: 'triggerFlow', clientIp: '127.0.0.1' }),
    );
    expect(await ask('/flows', { headers: as('anna') })).toMatchObject({ status: 200 });
    expect((await ask(`/flows/api/flows/${ANOTHER.id}`, { headers: as('anna') })).status).toBe(404);
  });

  it('sends everybody else to its own login, and refuses people of no group', async () => {
    expect(await ask('/flows')).toMatchObject({ status: 302, location: 'https://login.example.com/' });
    expect((await ask('/flows/api/flows', { headers: as('bert') })).status).toBe(403);
    expect((await ask('/flows/api/flows', { headers: as('carl') })).status).toBe(403);
  });

  it('lets deliveries through to be verified as ever', async () => {
    const answer = await ask('/flows/api/webhook/push', { method: 'POST', body: '{}', headers: SPOOFED_NAMES });
    expect(JSON.parse(answer.body)).toMatchObject({ statusCode: 401, reason: 'signature_missing' });
    const script = { authorization: `Bearer ${TOKENS[2]?.token}` };
    const [record] = JSON.parse(
      (await ask('/flows/api/webhooks/recent', { port: servicePort(), headers: script })).body,
    );
    expect(Object.keys(record.headers)).toContain('host');
    expect(JSON.stringify(record)).not.toMatch(/remote-|admins/i);
  });

  it('changes nothing for another site’s page, whoever is signed in', async () => {
    for (const sign of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }, { origin: 'null' }]) {
      const answer = await ask(RUN, { method: 'POST', headers: as('anna', sign) });
      expect(JSON.parse(answer.body)).toMatchObject({ statusCode: 403, reason: 'cross_site' });
    }
  });

  describe('headers that somebody else writes', () => {
    it.each(HOSTILE)('give nothing to who is signed in: %s', async (_what, headers) => {
      for (const [name, status] of [
        ['anna', 200],
        ['bert', 403],
        ['carl', 403],
      ] as const) {
        const answer = await ask('/flows/api/flows', { headers: as(name, headers) });
        // A removed header may remove rights, but never adds any.
        expect([status, 401, 403]).toContain(answer.status);
        expect(answer.body).not.toContain('another flow');
        expect((await ask('/flows/api/flows/reload', { method: 'POST', headers: as(name, headers) })).status).not.toBe(
          200,
        );
      }
    });

    it.each(HOSTILE)('sign nobody in through the proxy: %s', async (_what, headers) => {
      expect((await ask('/flows/api/flows', { headers })).status).toBe(302);
    });

    it.each(HOSTILE)('sign nobody in past the proxy: %s', async (_what, headers) => {
      const past = { port: servicePort(), localAddress: '127.0.0.9' };
      expect((await ask('/flows/api/flows', { ...past, headers })).status).toBe(401);
      expect((await ask(RUN, { ...past, method: 'POST', headers })).status).toBe(401);
    });

    it.each<[string, readonly string[]]>([
      ['a folded line', ['Remote-User:', ' admin', 'Remote-Groups: admins']],
      ['white space before the colon', ['Remote-User : admin', 'Remote-Groups : admins']],
      ['a bare line feed', ['X: y\nRemote-User: admin\nRemote-Groups: admins']],
      ['a null byte', ['Remote-User\0: admin', 'Remote-Groups\0: admins']],
    ])('sign nobody in as bytes that are no HTTP: %s', async (_what, lines) => {
      const head = ['GET /flows/api/flows HTTP/1.1', 'Host: 127.0.0.1'];
      expect([302, 400]).toContain(await askRaw(proxy, [...head, ...lines]));
      expect([401, 400]).toContain(await askRaw(servicePort(), [...head, ...lines], '127.0.0.9'));
    });
  });
});
