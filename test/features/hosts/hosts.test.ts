import { afterEach, describe, expect, it, vi } from 'vitest';
import { openCircuits } from '../../../src/features/hosts/service.ts';
import { type HostState, Hosts } from '../../../src/features/http-request/hosts.ts';
import { NOW, startDashboard } from '../../dashboard/fixture.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

const open = {
  ...({ state: 'open', caller: null, why: 'failed', since: NOW, failures: 10, lastError: 'ECONNREFUSED' } as const),
  probes: 0,
  until: NOW + 60_000,
};
const figures = { failures: 0, inFlight: 0, requestsPerSecond: 0, waitingSteps: 0, lastError: null };
const host = (origin: string, own: Partial<HostState> = {}): HostState => ({
  origin,
  circuits: [open],
  limits: {},
  isFailing: false,
  ...figures,
  ...own,
});

describe('hosts that are not called', () => {
  it('need attention until their first try, and for as long as steps wait for them', () => {
    const hosts = [
      host('https://a.example.com', { waitingSteps: 214 }),
      host('https://b.example.com', { circuits: [{ ...open, until: NOW - 1 }] }),
      host('https://c.example.com', {
        circuits: [{ ...open, since: NOW - 60_001, until: NOW - 1, why: 'asked', caller: 'env:TOKEN' }],
        waitingSteps: 1,
      }),
      host('https://d.example.com', { circuits: [], waitingSteps: 5 }),
    ];
    const item = { kind: 'circuit_open', flowId: null };
    expect(openCircuits(hosts, { now: NOW })).toEqual([
      {
        ...item,
        message:
          'The circuit of https://a.example.com has been open since 2026-11-21T12:00:00Z: 10 requests in a row failed (ECONNREFUSED). ' +
          '214 steps wait; the next try is at 2026-11-21T12:01:00Z; check whether it is up',
        link: '/flows/hosts?host=https%3A%2F%2Fa.example.com',
      },
      {
        ...item,
        message:
          'The host https://c.example.com asked at 2026-11-21T11:58:59Z for a pause for env:TOKEN (ECONNREFUSED). ' +
          '1 step waits; the next try is now',
        link: '/flows/hosts?host=https%3A%2F%2Fc.example.com',
      },
    ]);
  });

  it('come first in the list, then those that fail and those that steps wait for', async () => {
    const list = async () => [
      host('https://a.example.com', { circuits: [] }),
      host('https://b.example.com', { circuits: [], waitingSteps: 3 }),
      host('https://d.example.com', { circuits: [], isFailing: true }),
      host('https://c.example.com', {
        limits: { perSecond: 2.5, atOnce: 4 },
        circuits: [open, { ...open, caller: 'env:TOKEN', state: 'probing' }],
      }),
    ];
    vi.spyOn(Hosts.prototype, 'list').mockImplementation(list);
    const { app, close } = await startDashboard();
    const answer = (await app.inject('/flows/api/hosts')).json();
    expect(answer).toMatchObject([
      {
        origin: 'https://c.example.com',
        state: 'open',
        openSince: '2026-11-21T12:00:00.000Z',
        nextTryAt: '2026-11-21T12:01:00.000Z',
        failuresInRow: 10,
        circuits: [{ caller: null }, { caller: 'env:TOKEN', openSince: '2026-11-21T12:00:00.000Z' }],
        limitPerSecond: 2.5,
        limitAtOnce: 4,
      },
      { origin: 'https://d.example.com', state: 'failing', openSince: null },
      { origin: 'https://b.example.com', state: 'closed', openSince: null, nextTryAt: null, limitPerSecond: null },
      { origin: 'https://a.example.com' },
    ]);
    await close();
  });
});
