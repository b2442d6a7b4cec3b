import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Credentials } from '../../src/config/credentials.ts';
import { createLogins } from '../../src/dashboard/logins.ts';
import type { DashboardServices } from '../../src/dashboard/services.ts';
import { StoreUnavailableError } from '../../src/errors.ts';
import { createSessions } from '../../src/features/login/session.ts';
import type { Store } from '../../src/store/store.ts';
import { NOW, ORDERS_ID, orderDelivery, startDashboard, UNKNOWN_ID } from './fixture.ts';

/** Reads a stream until its text meets the condition. */
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
    .map((block) => block.split('\n'))
    .filter(([name]) => !/service\.state|attention\.changed/.test(name ?? ''));
  expect(events.map(([name]) => name).sort()).toEqual(['event: delivery.received', 'event: run.started']);
  for (const [, data = ''] of events) expect(JSON.parse(data.slice('data: '.length)).runId).toBe(runId);
});

/** The data of the first event of a type that meets the condition. */
async function nextOf(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  type: string,
  isMeant: (data: Record<string, unknown>) => boolean = () => true,
) {
  let found: Record<string, unknown> | undefined;
  await readUntil(reader, (text) => {
    const told = [...text.matchAll(new RegExp(`event: ${type.replace('.', '\\.')}\ndata: (.*)\n\n`, 'g'))];
    found = told.map(([, data = '']) => JSON.parse(data)).find(isMeant);
    return found !== undefined;
  });
  return found;
}

describe('how the service does', () => {
  const failing = (memory: { isAway: boolean; isSilent?: boolean }, store: Store): Store => ({
    ...store,
    async ping() {
      if (memory.isSilent === true) await new Promise(() => {});
      if (memory.isAway) throw new StoreUnavailableError('disk full');
    },
  });

  it('is told to a reader at once, and again', async () => {
    const { reader } = await watch();
    const well = { ready: true, reason: null, message: null, refused: null };
    expect(await nextOf(reader, 'service.state')).toEqual(well);
    expect(await nextOf(reader, 'service.state')).toEqual(well);
  });

  it('is not ready while the store is away, and is ready again after that', async () => {
    const own = await startDashboard();
    const memory = { isAway: true };
    const { reader } = await watch('', { store: failing(memory, own.store) });
    expect(await nextOf(reader, 'service.state')).toMatchObject({ ready: false, reason: 'store_unavailable' });
    memory.isAway = false;
    expect(await nextOf(reader, 'service.state', ({ ready }) => ready === true)).toMatchObject({ reason: null });
  });

  it('is not ready while the store answers nothing at all', async () => {
    const own = await startDashboard();
    const { reader } = await watch('', { store: failing({ isAway: false, isSilent: true }, own.store) });
    const state = await nextOf(reader, 'service.state');
    expect(state).toMatchObject({ ready: false, message: expect.stringContaining('has not answered for 2 s') });
  });

  it('has the deliveries that got 503 in the last minute, but none from before somebody read', async () => {
    const own = await startDashboard();
    const accept = () => Promise.reject(new StoreUnavailableError('disk full'));
    const { dashboard, reader } = await watch('', { store: { ...own.store, accept } });
    expect(await nextOf(reader, 'service.state')).toMatchObject({ refused: null });
    expect((await dashboard.app.inject(orderDelivery('{}'))).statusCode).toBe(503);
    expect((await dashboard.app.inject(orderDelivery('[]'))).statusCode).toBe(503);
    const told = await nextOf(reader, 'service.state', ({ refused }) => refused !== null);
    expect(told).toMatchObject({ ready: true, refused: { counts: { store_unavailable: 2 } } });
    dashboard.clock.advance(60_001);
    expect(await nextOf(reader, 'service.state', ({ refused }) => refused === null)).toBeDefined();
  });

  it('is told with how much needs attention', async () => {
    const { reader } = await watch();
    expect(await nextOf(reader, 'attention.changed')).toEqual({ errors: 0, warnings: expect.any(Number) });
  });
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
    const sessions = createSessions(logins, { store, clock });
    const actor = logins.credentials.prove({ user: '', password: '', token });
    if (actor === undefined) throw new Error('the token proves nobody');
    const session = () => ({ cookie: `sluice-session=${sessions.begin(actor)}` });
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
