import { describe, expect, it } from 'vitest';
import { whereRunsAre } from '../../../src/features/deploy-rules/live-runs.ts';
import type { LiveFlow } from '../../../src/model/finding.ts';
import { inFlight, QUIET } from './samples.ts';

const past = { fetch: 'ended', approve: 'ended', pay: 'runs' } as const;
const waiting = { fetch: 'ended', approve: 'waits' } as const;
const ahead = { fetch: 'runs' } as const;

describe('the place of runs in flight', () => {
  it.each<[string, LiveFlow, string | undefined]>([
    ['none', QUIET, undefined],
    ['one past it', inFlight(past), '1 run is past `approve`'],
    ['several past it', inFlight(past, past), '2 runs are past `approve`'],
    ['one waiting in it', inFlight(waiting), '1 run waits in `approve`'],
    ['one in it', inFlight({ approve: 'runs' }), '1 run is in `approve`'],
    ['one about to start it', inFlight({ approve: 'due' }), '1 run is about to start `approve`'],
    ['one ahead of it', inFlight(ahead), '1 run has not reached `approve` (1 is in `fetch`)'],
    [
      'all over the flow',
      inFlight(past, past, past, waiting, ahead, { fetch: 'waits' }),
      '3 runs are past `approve`, 1 waits in `approve`, 2 have not reached it (1 is in `fetch`, 1 waits in `fetch`)',
    ],
    [
      'more than are listed',
      { ...inFlight(past, waiting), runsInFlight: 4000 },
      'of the oldest 2 of 4000 runs in flight: 1 run is past `approve`, 1 waits in `approve`',
    ],
    ['none that is listed', { ...QUIET, runsInFlight: 2 }, '2 runs in flight'],
  ])('%s', (_, live, expected) => {
    expect(whereRunsAre(live, ['approve'])).toBe(expected);
  });

  it('names every step that the change comes before', () => {
    expect(whereRunsAre(inFlight({ a: 'ended' }, { b: 'waits' }, {}), ['a', 'b'])).toBe(
      '1 run is past `a` or `b`, 1 waits in `a` or `b`, 1 has not reached it',
    );
  });
});
