import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Credentials } from '../../src/config/credentials.ts';
import type { DashboardServices } from '../../src/dashboard/services.ts';
import { createLogins } from '../../src/dashboard/session.ts';
import { NOW, ORDERS_ID, orderDelivery, startDashboard, UNKNOWN_ID } from './fixture.ts';

/** Reads a stream until it holds a text. */
async function readUntil(reader: ReadableStreamDefaultReader<Uint8Array>, isThere: (text: string) => boolean) {
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    text += Buffer.from(value ?? new Uint8Array()).toString();
    if (done || isThere(text)) return text;
  }
}

async function watch(query = '', services: Partial<DashboardServices> = {}, headers: Record<string, string> = {}) {
  const dashboard = await startDashboard(services);
  await dashboard.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = dashboard.app.server.address() as AddressInfo;
  const stop = new AbortController();
  onTestFinished(async () => {
    stop.abort();
    await dashboard.close();
  });
  const url = `http://127.0.0.1:${port}/flows/api/events/stream${query}`;
  const response = await fetch(url, { headers, signal: stop.signal });
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error('the answer has no body');
  await readUntil(reader, (text) => text.includes('\n\n'));
  return { dashboard, response, reader };
}

it('streams deliveries and runs as they happen', async () => {
  const { dashboard, response, reader } = await watch();
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  const { runId } = (await dashboard.app.inject(orderDelivery('{}'))).json();
  const text = await readUntil(reader, (all) => all.includes('delivery.received') && all.includes('run.started'));
  const events = text
    .split('\n\n')
    .filter(Boolean)
    .map((block) => block.split('\n'));
  expect(events.map(([name]) => name).sort()).toEqual(['event: delivery.received', 'event: run.started']);
  for (const [, data = ''] of events) expect(JSON.parse(data.slice('data: '.length)).runId).toBe(runId);
});

it('streams only the run that is named', async () => {
  const { dashboard, reader } = await watch(`?runId=${UNKNOWN_ID}`);
  await dashboard.app.inject(orderDelivery('{}'));
  await dashboard.app.close();
  expect(await readUntil(reader, () => false)).toBe('');
});

it('ends with the service, and does not hold up its stop', async () => {
  const { dashboard, reader } = await watch();
  await dashboard.app.inject({ method: 'POST', url: `/flows/api/flows/${ORDERS_ID}/trigger` });
  const rest = readUntil(reader, () => false);
  await dashboard.app.close();
  expect(await rest).toContain('event: run.started');
});

describe('a stream behind a login', () => {
  const READER = { name: 'reader', token: 'reader-4f1c9d7ab2e8', scopes: ['read'] } as const;
  const OTHER = { name: 'other', token: 'other-5d6e7f8091a2b3', scopes: ['read'] } as const;
  const access: Credentials = { kind: 'credentials', tokens: [READER, OTHER] };
  const clock = { now: () => NOW, ledger: () => NOW };

  function loggedIn({ token }: { token: string }) {
    const ended = new Set<string>();
    const store = {
      endSession: async ({ id }: { id: string }) => void ended.add(id),
      isSessionEnded: async ({ id }: { id: string }) => ended.has(id),
      noteCredentials: async () => {},
    };
    const logins = createLogins(access, { store, clock });
    const actor = logins.credentials.prove({ user: '', password: '', token });
    if (actor === undefined) throw new Error('the token proves nobody');
    const session = () => ({ cookie: `sluice-session=${logins.sessions.begin(actor)}` });
    return { session, logins };
  }

  it('ends with the log-out of its session, and no other does', async () => {
    const { session, logins } = loggedIn(READER);
    const [headers, another] = [session(), session()];
    const { dashboard, reader } = await watch('', { access, logins }, headers);
    const logOut = (of: Record<string, string>) =>
      dashboard.app.inject({ method: 'POST', url: '/flows/logout', headers: of });
    await logOut(another);
    await dashboard.app.inject(orderDelivery('{}'));
    await logOut(headers);
    expect(await readUntil(reader, () => false)).toContain('delivery.received');
  });

  it.each([
    ['a token', undefined],
    ['a session', READER],
  ])('of %s ends as soon as the token is taken off the list', async (_what, withSession) => {
    const { session, logins } = loggedIn(READER);
    const headers: Record<string, string> =
      withSession === undefined ? { authorization: `Bearer ${READER.token}` } : session();
    const { dashboard, reader } = await watch('', { access, logins }, headers);
    logins.credentials.replace({ ...access, tokens: [READER] });
    await dashboard.app.inject(orderDelivery('{}'));
    logins.credentials.replace({ ...access, tokens: [OTHER] });
    expect(await readUntil(reader, () => false)).toContain('delivery.received');
    expect((await dashboard.app.inject({ url: '/flows/api/runs', headers })).statusCode).toBe(401);
  });
});
