import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Situation } from '../../../src/dashboard/attention/finding.ts';
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
const FLOW_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
const flows = [{ record: { id: FLOW_ID, name: 'ERP booking' } }] as unknown as Situation['flows'];
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
    const runs = new Map([
      [FLOW_ID, 200],
      ['gone', 1],
    ]);
    const link = '/flows/hosts?host=https%3A%2F%2Fa.example.com';
    const down = 'a.example.com is down since 2026-11-21T12:00:00Z: connection refused, 10 requests in a row';
    const next = 'next try 2026-11-21T12:01Z; check whether it is up';
    // One for each flow, so that the owners of each get it.
    expect(openCircuits(hosts, { now: NOW, flows }, new Map([['https://a.example.com', runs]]))).toEqual([
      { ...item, message: `${down}; at least 200 runs of ERP booking wait; ${next}`, link, flowId: FLOW_ID },
      { ...item, message: `${down}; 1 run of gone waits; ${next}`, link, flowId: 'gone' },
      {
        ...item,
        message:
          'c.example.com asked at 2026-11-21T11:58:59Z for a pause for env:TOKEN: connection refused; ' +
          '1 step waits; next try now',
        link: '/flows/hosts?host=https%3A%2F%2Fc.example.com',
      },
    ]);
  });

  it('are told with the flow of the step that they do not answer', () => {
    const caller = `step call of flow ${FLOW_ID} with env:TOKEN`;
    const own = host('http://10.0.0.5:8080', { circuits: [{ ...open, caller }] });
    const [found] = openCircuits([own], { now: NOW, flows });
    expect(found).toMatchObject({ flowId: FLOW_ID });
    expect(found?.message).toContain('10.0.0.5:8080 fails for step call of flow ERP booking with env:TOKEN since');
  });

  it('are told for each flow by its own circuit, whatever short pause another step was asked for', () => {
    const other = '6a3f0c1e-2b7d-4c58-9e10-4d2a8b6c7f31';
    const circuits = [
      { ...open, why: 'asked' as const, caller: `step a of flow ${other}`, until: NOW + 2_000 },
      { ...open, why: 'asked' as const, caller: `step b of flow ${FLOW_ID}`, until: NOW + 3_600_000 },
      { ...open, caller: `step c of flow ${other}` },
      { ...open, caller: `step d of flow ${other}`, until: NOW - 1 },
    ];
    const erp = host('https://erp.example.com', { circuits, waitingSteps: 5 });
    const runs = new Map([[erp.origin, new Map([[FLOW_ID, 3]])]]);
    expect(openCircuits([erp], { now: NOW, flows }, runs)).toMatchObject([
      { flowId: FLOW_ID, message: expect.stringMatching(/for step b of .*; 3 runs of ERP booking wait; .*T13:00Z$/) },
      { flowId: other, message: expect.stringMatching(/for step c of .*; no step waits; .*T12:01Z;/) },
    ]);
    const forAll = { ...erp, circuits: [open, ...circuits] };
    expect(openCircuits([forAll], { now: NOW, flows }, runs)).toMatchObject([
      { flowId: FLOW_ID, message: expect.stringMatching(/for step b of .*; 3 runs of ERP booking wait; .*T13:00Z$/) },
      { flowId: null, message: expect.stringMatching(/is down .*; no step waits; .*T12:01Z;/) },
    ]);
    const longer = { ...erp, circuits: [{ ...open, until: NOW + 3_660_000 }, ...circuits] };
    expect(openCircuits([longer], { now: NOW, flows }, runs)).toMatchObject([
      { flowId: FLOW_ID, message: expect.stringMatching(/is down .*; 3 runs of ERP booking wait; .*T13:01Z;/) },
    ]);
  });

  it('are told by the longest circuit of a flow', () => {
    const caller = `step call of flow ${FLOW_ID}`;
    const circuits = [
      { ...open, caller, until: NOW - 1 },
      { ...open, caller: `${caller} with env:TOKEN`, until: NOW + 1_800_000 },
    ];
    const erp = host('https://erp.example.com', { circuits, waitingSteps: 5 });
    const runs = new Map([[erp.origin, new Map([[FLOW_ID, 3]])]]);
    expect(openCircuits([erp], { now: NOW, flows }, runs)).toMatchObject([
      { flowId: FLOW_ID, message: expect.stringMatching(/with env:TOKEN .*; 3 runs of ERP booking wait; .*T12:30Z;/) },
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
