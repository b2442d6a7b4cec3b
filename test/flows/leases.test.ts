import pino from 'pino';
import { expect, it } from 'vitest';
import { createLeases } from '../../src/flows/leases.ts';
import type { Claim } from '../../src/store/store.ts';

const store = {
  renewLeases: async () => [],
  returnLeases: async () => {},
  beginAttempts: async () => {},
};
const leases = () =>
  createLeases({
    store: store as unknown as Parameters<typeof createLeases>[0]['store'],
    clock: { now: () => 0, monotonic: () => 0 },
    logger: pino({ level: 'silent' }),
  });
const claim = (runId: string) => ({ runId, token: runId }) as unknown as Claim;

it('a lease that leaves twice takes no other with it', () => {
  const held = leases();
  const first = held.hold(claim('first'), 1);
  held.release(first);
  const second = held.hold(claim('second'), 1);
  held.release(first);
  expect(held.tokens()).toEqual(['second']);
  held.stopRun('second', 'cancelled');
  expect(second.aborted).toBe(true);
  expect(second.signal.aborted).toBe(true);
});
