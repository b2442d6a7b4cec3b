import { describe, expect, it } from 'vitest';
import { openCircuits } from '../../src/dashboard/api/hosts.ts';
import { CLOSED } from '../../src/flows/circuit.ts';
import type { HostState } from '../../src/flows/hosts.ts';
import { NOW, startDashboard } from './fixture.ts';

const open = {
  ...({ phase: 'open', why: 'failed', since: NOW, opens: 1, failures: 10, lastError: 'ECONNREFUSED' } as const),
  rampPerSecond: 2,
  probeAt: NOW + 60_000,
  probingUntil: null,
  heldUntil: null,
};
const figures = { inFlight: 0, requestsPerSecond: 0, waitingSteps: 0, lastError: null, limits: {} };
const host = (origin: string, own: Partial<HostState> = {}): HostState => ({
  origin,
  circuit: open,
  state: 'open',
  why: 'the circuit is open',
  ...figures,
  ...own,
});

describe('hosts that are not called', () => {
  it('need attention until their first try, and for as long as steps wait for them', () => {
    const hosts = [
      host('https://a.example.com', { waitingSteps: 214 }),
      host('https://b.example.com', { circuit: { ...open, probeAt: NOW - 1 } }),
      host('https://c.example.com', {
        circuit: { ...open, since: NOW - 60_001, probeAt: NOW - 1, why: 'asked' },
        waitingSteps: 1,
      }),
      host('https://d.example.com', { circuit: CLOSED, waitingSteps: 5 }),
    ];
    const item = { kind: 'circuit_open', severity: 'warning' };
    expect(openCircuits({ hosts, now: NOW })).toEqual([
      {
        ...item,
        message: 'The circuit is open. 214 steps wait; the next try is at 2026-11-21T12:01:00Z; check whether it is up',
        link: '/flows/hosts?host=https%3A%2F%2Fa.example.com',
      },
      {
        ...item,
        message: 'The circuit is open. 1 step waits; the next try is now',
        link: '/flows/hosts?host=https%3A%2F%2Fc.example.com',
      },
    ]);
  });

  it('come first in the list, then those that fail and those that steps wait for', async () => {
    const list = async () => [
      host('https://a.example.com', { circuit: CLOSED, state: 'closed', why: null }),
      host('https://b.example.com', { circuit: CLOSED, state: 'closed', why: null, waitingSteps: 3 }),
      host('https://d.example.com', { circuit: CLOSED, state: 'failing', why: null }),
      host('https://c.example.com', { limits: { perSecond: 2.5, atOnce: 4 } }),
    ];
    const { app, close } = await startDashboard({ hosts: { list, closeCircuit: async () => true } });
    const answer = (await app.inject('/flows/api/hosts')).json();
    expect(answer).toMatchObject([
      {
        origin: 'https://c.example.com',
        state: 'open',
        openSince: '2026-11-21T12:00:00.000Z',
        nextTryAt: '2026-11-21T12:01:00.000Z',
        failuresInRow: 10,
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
