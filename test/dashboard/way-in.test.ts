import { describe, expect, it } from 'vitest';
import type { DashboardServices, ServicePart } from '../../src/dashboard/services.ts';
import type { Sender } from '../../src/dashboard/way-in.ts';
import { HttpError } from '../../src/errors.ts';
import { serviceParts } from '../../src/features/service.ts';
import { ORDERS_ID, startDashboard } from './fixture.ts';

const READER = { name: 'reader', token: 'reader-4f1c9d7ab2e8', scopes: ['read'] } as const;
const BASIC = { user: 'ops', password: 'pass:wörd' };
const withoutWays = serviceParts.filter(({ wayIn }) => wayIn === undefined);

/** A service with these ways in alone. */
async function open(ways: readonly (Sender | undefined)[], services: Partial<DashboardServices> = {}) {
  const parts = ways.map(
    (sender, at): ServicePart => ({
      name: `way ${at}`,
      wayIn: () => ({ whoSent: async () => sender }),
    }),
  );
  const access = { kind: 'credentials', tokens: [READER] } as const;
  const { app } = await startDashboard({ access, parts: [...withoutWays, ...parts], ...services });
  const ask = async (url: string, headers: Record<string, string> = {}, method: 'GET' | 'POST' = 'GET') =>
    (await app.inject({ method, url, headers })).statusCode;
  return { app, ask };
}

const RUNS = '/flows/api/runs';
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const anna: Sender = { actor: { name: 'anna', grants: [{ scopes: ['read'] }] } };
const refused: Sender = { refusal: new HttpError('insufficient_scope', 'nothing is allowed') };

describe('without a way in', () => {
  it('nobody comes in but by the credentials of a request', async () => {
    const { ask } = await open([], { access: { kind: 'credentials', tokens: [READER], basic: BASIC } });
    const basic = Buffer.from(`${BASIC.user}:${BASIC.password}`).toString('base64');
    expect(await ask(RUNS, { authorization: `Basic ${basic}` })).toBe(200);
    expect(await ask(RUNS, bearer(READER.token))).toBe(200);
    for (const headers of [
      {},
      bearer('wrong'),
      { cookie: 'sluice-session=a.b.c.d' },
      { 'remote-user': 'anna', 'remote-groups': 'staff' },
    ]) {
      for (const url of [RUNS, '/flows', '/metrics', '/nobody/has/this']) expect(await ask(url, headers)).toBe(401);
    }
  });

  it('a browser is told 401 too, because there is no page on which it could log in', async () => {
    const { ask } = await open([]);
    expect(await ask('/flows', { 'sec-fetch-mode': 'navigate' })).toBe(401);
    expect(await ask('/flows/login')).toBe(401);
  });
});

describe('ways in', () => {
  it('let in who one of them names, with that scope alone', async () => {
    const { ask } = await open([undefined, anna]);
    expect(await ask(RUNS)).toBe(200);
    expect(await ask(`/flows/api/flows/${ORDERS_ID}/disable`, {}, 'POST')).toBe(403);
  });

  it.each<[string, readonly (Sender | undefined)[], number]>([
    ['names nobody', [undefined, undefined], 401],
    ['refuses the sender', [refused], 403],
    ['refuses the sender whom no other knows', [refused, undefined], 403],
    ['names a sender without rights', [{ actor: { name: 'anna', grants: [] } }], 403],
  ])('keep out whom all do not name: one %s', async (_what, ways, status) => {
    const { ask } = await open(ways);
    expect(await ask(RUNS)).toBe(status);
  });

  it('refuse nobody whom a later one lets in', async () => {
    const { ask } = await open([refused, anna]);
    expect(await ask(RUNS)).toBe(200);
  });

  it('are not asked about a request with credentials, right or wrong', async () => {
    const { ask } = await open([{ actor: { name: 'anna', grants: [{ scopes: ['read', 'operate'] }] } }]);
    expect(await ask(RUNS, bearer('wrong'))).toBe(401);
    const disable = `/flows/api/flows/${ORDERS_ID}/disable`;
    expect(await ask(disable, bearer(READER.token), 'POST')).toBe(403);
  });
});
