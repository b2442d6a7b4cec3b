import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  afterRequest,
  beginProbe,
  type Circuit,
  CLOSED,
  circuitText,
  isNotable,
  mayProbe,
  type OpenCircuit,
  openCircuit,
  type RequestEnd,
} from '../../../src/features/http-request/circuit.ts';

const T0 = Date.UTC(2026, 10, 22);
const about = { at: T0, isProbe: false, caller: null, threshold: 3, random: () => 0.5 };
const FAILED: RequestEnd = { kind: 'failed', error: 'ECONNREFUSED' };
const ANSWERED: RequestEnd = { kind: 'answered' };
const askFor = (forMs: number): RequestEnd => ({ kind: 'refused', error: 'answered 429', forMs });
const past = (circuit: Circuit, ended: RequestEnd, more = {}) => afterRequest(circuit, ended, { ...about, ...more });
const failures = (count: number) =>
  Array.from({ length: count }).reduce<Circuit>((circuit) => past(circuit, FAILED), CLOSED);

function opened(circuit: Circuit = failures(3)): OpenCircuit {
  if (circuit.state === 'closed') throw new Error('it is closed');
  return circuit;
}
const probed = (ended: RequestEnd, circuit = opened(), at = circuit.until) =>
  past(beginProbe(circuit, at, 1000), ended, { at, isProbe: true });

describe('a circuit', () => {
  it('opens after so many failures in a row, for five seconds, and says why', () => {
    expect(failures(2)).toEqual({ state: 'closed', failures: 2 });
    expect(failures(3)).toMatchObject({ state: 'open', since: T0, failures: 3, until: T0 + 5000 });
    expect(circuitText('https://a.example', opened())).toBe(
      'a.example is down since 2026-11-22T00:00:00Z: connection refused, 3 requests in a row',
    );
  });

  it('stays closed where answers come between, and says whose requests failed where not all may', () => {
    expect(past(past(failures(2), ANSWERED), FAILED)).toEqual({ state: 'closed', failures: 1 });
    const own = opened(past(failures(2), FAILED, { caller: 'env:TOKEN' }));
    expect(circuitText('https://a.example', own)).toContain('a.example fails for env:TOKEN since');
  });

  it('stays open for twice as long after each probe that fails, for a minute at most', () => {
    let circuit = opened();
    const times: number[] = [];
    for (let probes = 0; probes < 6; probes += 1) {
      const at = circuit.until;
      circuit = opened(probed(FAILED, circuit));
      times.push(circuit.until - at);
    }
    expect(times).toEqual([10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
    expect(circuit.since).toBe(T0);
  });

  it('is moved by nothing that was sent before it opened, but for a longer pause', () => {
    const open = opened();
    expect(past(open, FAILED)).toBe(open);
    expect(past(open, ANSWERED)).toBe(open);
    expect(past(open, askFor(60_000))).toMatchObject({ state: 'open', until: T0 + 60_000 });
    expect(past(open, askFor(1000))).toMatchObject({ until: open.until });
  });

  it('lets one request probe; another takes its place once its answer is overdue, or it was given up', () => {
    const open = opened();
    expect(mayProbe(open, open.until - 1)).toBe(false);
    expect(mayProbe(open, open.until)).toBe(true);
    const probing = beginProbe(open, open.until, 30_000);
    expect(mayProbe(probing, open.until + 29_999)).toBe(false);
    expect(mayProbe(probing, open.until + 30_000)).toBe(true);
    expect(mayProbe(opened(probed({ kind: 'none' })), open.until)).toBe(true);
  });

  it('closes when the probe is answered, as if it had never been open', () => {
    expect(probed(ANSWERED)).toEqual(CLOSED);
  });

  it.each([
    ['it was not sent', { kind: 'none' }, T0 + 5000],
    ['its name was not found', { kind: 'none', error: 'ENOTFOUND' }, T0 + 15_000],
    ['the address was refused here', { kind: 'none', error: 'egress_refused' }, T0 + 15_000],
  ] as const)('is probed again at once only where the probe said nothing: %s', (_what, ended, until) => {
    expect(probed(ended)).toMatchObject({ state: 'open', until });
    expect(past(failures(2), ended)).toEqual(failures(2));
  });

  it.each([
    ['a minute', 60_000, 60_000],
    ['ten years', 315_360_000_000, 3_600_000],
  ])('of a host that asks for %s is open for that, an hour at most', (_what, forMs, openMs) => {
    const asked = past(failures(2), askFor(forMs));
    expect(asked).toMatchObject({ state: 'open', why: 'asked', until: T0 + openMs, failures: 0 });
    expect(probed(askFor(forMs))).toMatchObject({ state: 'open', why: 'asked', until: T0 + 5000 + openMs });
  });

  it.each([
    ['that failed', opened(), true],
    ['that asked for a second', past(CLOSED, askFor(1000)), false],
    ['that asked for a minute', past(CLOSED, askFor(60_000)), true],
    ['that is called', CLOSED, false],
  ])('of a host %s is worth a look: %s', (_what, circuit, isWorth) => {
    expect(isNotable(circuit)).toBe(isWorth);
  });

  it('is probed where its time was written before the clock was set back', () => {
    expect(mayProbe(opened(), T0 - 30 * 86_400_000)).toBe(true);
  });

  it('is what it was after it was stored', () => {
    const probing = beginProbe(opened(), T0, 1000.5);
    expect(openCircuit.parse(JSON.parse(JSON.stringify(probing)))).toEqual(probing);
  });

  it('whatever happens, has at most one probe under way, opens only for a reason, and is probed within an hour', () => {
    const event = fc.record({
      ended: fc.constantFrom(FAILED, ANSWERED, askFor(1), askFor(1e12), { kind: 'none' } as const),
      afterMs: fc.integer({ min: 0, max: 90_000 }),
      isProbe: fc.boolean(),
      random: fc.double({ min: 0, max: 0.999, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), fc.integer({ min: 1, max: 12 }), (events, threshold) => {
        let circuit: Circuit = CLOSED;
        let at = T0;
        let inARow = 0;
        for (const { ended, afterMs, random, ...given } of events) {
          at += afterMs;
          if (circuit.state === 'open' && mayProbe(circuit, at)) {
            circuit = beginProbe(circuit, at, 3_600_000);
            expect(mayProbe(circuit, at)).toBe(false);
          }
          const before: Circuit = circuit;
          const isProbe = given.isProbe && before.state === 'probing';
          circuit = past(before, ended, { at, isProbe, threshold, random: () => random });
          inARow = ended.kind === 'failed' ? inARow + 1 : ended.kind === 'answered' ? 0 : inARow;
          if (circuit.state === 'closed') {
            if (before.state !== 'closed') expect(isProbe && ended.kind === 'answered').toBe(true);
            continue;
          }
          if (before.state === 'closed') expect(ended.kind === 'refused' || inARow >= threshold).toBe(true);
          expect(openCircuit.safeParse(circuit).success).toBe(true);
          expect(circuit.until - at).toBeLessThanOrEqual(3_600_000);
          expect(mayProbe(circuit, circuit.until)).toBe(true);
        }
      }),
    );
  });
});
