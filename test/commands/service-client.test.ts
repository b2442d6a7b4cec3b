import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { createServiceClient, type Example, listPath } from '../../src/commands/service-client.ts';
import { readSettings } from '../../src/config/settings.ts';

const TOKEN = 'all-0f1e2d3c4b5a6978';
const USER = { SLUICE_DASHBOARD_USER: 'ops', SLUICE_DASHBOARD_PASSWORD: 'a-good-password' };

it('asks for a path without parameters by the path alone', () => {
  expect(listPath('/flows/api/runs', { status: undefined, includeBuiltIn: false })).toBe('/flows/api/runs');
  expect(listPath('/flows/api/runs', { take: 5, search: 'a b' })).toBe('/flows/api/runs?take=5&search=a+b');
});

describe('a command that talks to a service', () => {
  let port = 0;
  let status = 200;
  const authorizations: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    authorizations.push(request.headers.authorization);
    response.writeHead(status).end('{}');
  });
  beforeAll(async () => {
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    port = (server.address() as AddressInfo).port;
  });
  afterAll(() => server.close());
  beforeEach(() => {
    status = 200;
    authorizations.length = 0;
  });

  const ask = async (environment: Record<string, string>, given: { token?: string; user?: string } = {}) => {
    const settings = readSettings({ SLUICE_DASHBOARD_TOKEN: TOKEN, ...environment });
    const client = createServiceClient(`http://127.0.0.1:${port}`, given, settings);
    await client.ask({ method: 'GET', path: '/flows/api/flows' });
    return authorizations[0];
  };
  const own = (more: Record<string, string> = {}) => ({ SLUICE_PORT: String(port), ...more });

  it.each([
    ['the address of the settings', () => own()],
    ['another name of this machine', () => own({ SLUICE_HOST: 'localhost' })],
    ['this machine, where the settings listen everywhere', () => own({ SLUICE_HOST: '0.0.0.0' })],
    ['the public URL', () => ({ SLUICE_PORT: '1', SLUICE_PUBLIC_URL: `http://127.0.0.1:${port}/` })],
  ])('sends the credentials of the environment to %s', async (_where, environment) => {
    expect(await ask(environment())).toBe(`Bearer ${TOKEN}`);
  });

  it.each([
    ['another port of this machine', () => ({ SLUICE_PORT: '1' })],
    ['this machine, where the settings name another', () => own({ SLUICE_HOST: '192.0.2.1' })],
    ['the port of another public URL', () => ({ SLUICE_PORT: '1', SLUICE_PUBLIC_URL: `https://127.0.0.1:${port}` })],
    ['any port, where the settings take a free one', () => ({ SLUICE_PORT: '0' })],
  ])('sends %s nothing but what the command is given', async (_where, environment) => {
    expect(await ask({ ...environment(), ...USER })).toBeUndefined();
    authorizations.length = 0;
    expect(await ask(environment(), { token: 'given' })).toBe('Bearer given');
    authorizations.length = 0;
    expect(await ask(environment(), { user: 'a:b' })).toBe(`Basic ${Buffer.from('a:b').toString('base64')}`);
  });

  it('says why the credentials of the environment did not go, and quotes none', async () => {
    status = 401;
    const refused = await ask({ SLUICE_PORT: '1' }).catch((error: Error) => error.message);
    expect(refused).toContain(
      'give --token or --user: the credentials of the settings are only sent to http://127.0.0.1:1',
    );
    expect(refused).not.toContain(TOKEN);
    await expect(ask(own())).rejects.toThrow('give --token or --user, or set SLUICE_DASHBOARD_TOKEN');
  });
});

describe('a service that accepts the connection', () => {
  /** Waits with a time that only the test moves. */
  const asking = async (method: 'GET' | 'POST', answer: (response: ServerResponse) => void, like: Example = null) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const client = createServiceClient(`http://127.0.0.1:${port}`, {}, readSettings({}));
    const asked = client.ask({ method, path: '/flows/api/flows', like }).then(
      () => 'answered',
      (error: Error) => error.message,
    );
    const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
    answer(response);
    return { asked, port };
  };

  it.each([
    ['GET', 60],
    ['POST', 240],
  ] as const)('and never answers a %s fails it after %d s', async (method, seconds) => {
    const { asked, port } = await asking(method, () => {});
    vi.advanceTimersByTime(seconds * 1000);
    const url = `http://127.0.0.1:${port}/flows/api/flows`;
    expect(await asked).toBe(`${method} ${url}: no answer within ${seconds} s; is it a Sluice service?`);
  });

  it.each(['null', '7', '"text"', '[1,null]', '[[]]'])('and answers %s fails it', async (body) => {
    const { asked, port } = await asking('GET', (response) => void response.end(body));
    expect(await asked).toBe(`http://127.0.0.1:${port}/flows/api/flows: the answer is not that of a Sluice service`);
  });

  it.each<[string, Example]>([
    ['{}', { message: '' }],
    ['{"message":5}', { message: '' }],
    ['{"message":"a","steps":{}}', { message: '', steps: [] }],
    ['{"steps":[{"key":"a"},{}]}', { steps: [{ key: '' }] }],
    ['[]', { message: '' }],
    ['{"message":"a"}', [{ message: '' }]],
    ['[{"message":"a"},{"message":null}]', [{ message: '' }]],
  ])('and answers %s, which is not like %j, fails it', async (body, like) => {
    const { asked, port } = await asking('GET', (response) => void response.end(body), like);
    expect(await asked).toBe(`http://127.0.0.1:${port}/flows/api/flows: the answer is not that of a Sluice service`);
  });

  it.each<[string, Example]>([
    ['{"message":"a","more":1}', { message: '', gone: null }],
    ['[]', [{ message: '' }]],
    ['[{"steps":[{"key":"a"}],"isDone":false,"count":0}]', [{ steps: [{ key: '' }], isDone: true, count: 1 }]],
  ])('may answer %s, which is like %j', async (body, like) => {
    expect(await (await asking('GET', (response) => void response.end(body), like)).asked).toBe('answered');
  });

  it('and stops in the middle of its answer fails it after 60 s', async () => {
    const decoded = vi.spyOn(TextDecoder.prototype, 'decode');
    onTestFinished(() => decoded.mockRestore());
    const { asked, port } = await asking('GET', (response) => void response.write('{"a":'));
    await vi.waitFor(() => expect(decoded).toHaveBeenCalled());
    vi.advanceTimersByTime(60_000);
    expect(await asked).toBe(`http://127.0.0.1:${port}/flows/api/flows: the answer stopped for 60 s`);
  });
});
