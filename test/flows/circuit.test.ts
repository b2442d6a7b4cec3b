import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  afterAnswer,
  afterFailure,
  afterRefusal,
  afterRequest,
  beginProbe,
  type Circuit,
  CLOSED,
  endProbe,
  isNotable,
  mayProbe,
  openCircuit,
  rampRate,
} from '../../src/flows/circuit.ts';

const T0 = Date.UTC(2026, 10, 22);
const failing = { error: 'ECONNREFUSED', threshold: 3, isProbe: false, random: () => 0.5 };
const failures = (count: number, from: Circuit = CLOSED, at = T0) =>
  Array.from({ length: count }).reduce<Circuit>((circuit) => afterFailure(circuit, { ...failing, at }), from);

const refused = { at: T0, error: 'answered 429', isProbe: false, perSecond: 0 };

function opened(circuit: Circuit = failures(3)): Extract<Circuit, { phase: 'open' }> {
  if (circuit.phase !== 'open') throw new Error('it is closed');
  return circuit;
}

describe('a circuit', () => {
  it('opens after so many failures in a row, for five seconds, and says why', () => {
    expect(failures(2)).toMatchObject({ phase: 'closed', failures: 2 });
    expect(failures(3)).toMatchObject({ phase: 'open', since: T0, failures: 3, lastError: 'ECONNREFUSED' });
    expect(opened().probeAt).toBe(T0 + 5000);
  });

  it('stays closed where answers come between, and where it is switched off', () => {
    const answered = afterAnswer(failures(2), { at: T0, isProbe: false });
    expect(failures(2, answered)).toMatchObject({ phase: 'closed' });
    expect(afterFailure(failures(2), { ...failing, at: T0, threshold: 0 })).toMatchObject({ phase: 'closed' });
  });

  it('stays open for twice as long after each probe that fails, for a minute at most', () => {
    let circuit: Circuit = opened();
    const times: number[] = [];
    for (let probes = 0; probes < 6; probes += 1) {
      const at = opened(circuit).probeAt;
      circuit = afterFailure(beginProbe(opened(circuit), at, 1000), { ...failing, at, isProbe: true });
      times.push(opened(circuit).probeAt - at);
    }
    expect(times).toEqual([10_000, 20_000, 40_000, 60_000, 60_000, 60_000]);
    expect(opened(circuit).since).toBe(T0);
  });

  it('is moved by nothing that was sent before it opened', () => {
    const open = opened();
    expect(afterFailure(open, { ...failing, at: T0 + 1 })).toBe(open);
    expect(afterAnswer(open, { at: T0 + 1, isProbe: false })).toBe(open);
  });

  it('lets one request probe; another takes its place once its answer is overdue, or it was given up', () => {
    const open = opened();
    expect(mayProbe(open, open.probeAt - 1)).toBe(false);
    expect(mayProbe(open, open.probeAt)).toBe(true);
    const probing = beginProbe(open, open.probeAt, 30_000);
    expect(mayProbe(probing, open.probeAt + 29_999)).toBe(false);
    expect(mayProbe(probing, open.probeAt + 30_000)).toBe(true);
    expect(mayProbe(opened(endProbe(probing)), open.probeAt)).toBe(true);
  });

  it('closes when the probe is answered; the host is asked slowly at first, and at full speed after ten seconds', () => {
    const at = T0 + 5000;
    const back = afterAnswer(beginProbe(opened(), at, 1000), { at, isProbe: true });
    expect([0, 999, 1000, 5500, 9999, 10_000].map((ms) => rampRate(back, at + ms))).toEqual([
      2,
      2,
      4,
      64,
      1024,
      Number.POSITIVE_INFINITY,
    ]);
    expect(afterAnswer(back, { at: at + 10_000, isProbe: false })).toEqual(CLOSED);
  });

  describe('that closed on probation', () => {
    const at = T0 + 5000;
    const back = afterAnswer(beginProbe(opened(), at, 1000), { at, isProbe: true });
    const ten = { ...failing, threshold: 10, at: at + 100 };
    const failed = (count: number, from: Circuit) =>
      Array.from({ length: count }).reduce<Circuit>((circuit) => afterFailure(circuit, ten), from);
    const answered = (count: number, from: Circuit) =>
      Array.from({ length: count }).reduce<Circuit>(
        (circuit) => afterAnswer(circuit, { at: at + 100, isProbe: false }),
        from,
      );

    it('opens after five failures in a row, and for longer than before', () => {
      expect(failed(4, back)).toMatchObject({ phase: 'closed' });
      expect(opened(failed(5, answered(3, back))).probeAt - ten.at).toBe(10_000);
    });

    it('is as any other after five answers, whatever failed between: it opens after all failures, for five seconds', () => {
      const well = answered(2, failed(4, answered(2, failed(4, back))));
      expect(failed(9, well)).toMatchObject({ phase: 'closed' });
      expect(opened(failed(10, well)).probeAt - ten.at).toBe(5000);
    });

    it('lets half as many requests pass after each further failure in a row, and after a single one as many as before', () => {
      const later = { ...ten, at: at + 5500 };
      const once = afterFailure(back, later);
      expect(rampRate(once, later.at)).toBe(64);
      const twice = afterFailure(once, later);
      expect(rampRate(twice, later.at)).toBe(32);
      expect(rampRate(afterFailure(twice, later), later.at)).toBe(16);
      expect(rampRate(failed(4, back), ten.at)).toBe(2);
    });
  });

  it('that a step will probe again is due after five seconds, and left to it for ten', () => {
    const probing = beginProbe(opened(), T0 + 5000, 1000);
    const failed = { ...failing, at: T0 + 5000, isProbe: true };
    const held = opened(afterFailure(probing, { ...failed, willRepeat: true }));
    const isFreeAt = (at: number, isRepeat?: boolean) => mayProbe(held, at, isRepeat);
    expect(held.probeAt).toBe(T0 + 10_000);
    expect([isFreeAt(held.probeAt - 1, true), isFreeAt(held.probeAt, true)]).toEqual([false, true]);
    expect([isFreeAt(held.probeAt + 9999), isFreeAt(held.probeAt + 10_000)]).toEqual([false, true]);
    const free = opened(afterFailure(beginProbe(held, held.probeAt, 1000), { ...failed, at: held.probeAt }));
    expect(free.probeAt).toBe(held.probeAt + 10_000);
    expect(mayProbe(free, free.probeAt)).toBe(true);
  });

  it('that was stored by an earlier release is held for no step', () => {
    const { heldUntil: _new, ...stored } = opened();
    expect(openCircuit.parse(stored)).toEqual(opened());
  });

  it.each([
    ['it was not sent', { kind: 'none' }, T0 + 5000],
    ['its name was not found', { kind: 'none', error: 'ENOTFOUND' }, T0 + 15_000],
    ['the address was refused here', { kind: 'none', error: 'egress_refused' }, T0 + 15_000],
  ] as const)('is probed again at once only where the probe said nothing: %s', (_what, ended, probeAt) => {
    const probing = beginProbe(opened(), T0 + 5000, 1000);
    const about = { ...failing, at: T0 + 5000, isProbe: true, perSecond: 0 };
    expect(afterRequest(probing, ended, about)).toMatchObject({ phase: 'open', probeAt, probingUntil: null });
    expect(afterRequest(failures(2), ended, { ...about, isProbe: false })).toEqual(failures(2));
  });

  it.each([
    ['a minute', 60_000, 60_000],
    ['ten years', 315_360_000_000, 3_600_000],
  ])('of a host that asks for %s is open for that, an hour at most', (_what, forMs, openMs) => {
    const asked = afterRefusal(failures(2), { ...refused, forMs });
    expect(asked).toMatchObject({ phase: 'open', why: 'asked', probeAt: T0 + openMs, failures: 0 });
  });

  it('of a host that asks several times is open for the longest', () => {
    const asked = afterRefusal(afterRefusal(CLOSED, { ...refused, forMs: 60_000 }), { ...refused, forMs: 1000 });
    expect(opened(asked).probeAt).toBe(T0 + 60_000);
  });

  it('of a host that asked for time lets half as many through afterwards as there were', () => {
    const asked = opened(afterRefusal(CLOSED, { ...refused, forMs: 1000, perSecond: 80 }));
    const back = afterAnswer(beginProbe(asked, T0 + 1000, 1000), { at: T0 + 1000, isProbe: true });
    expect([0, 1000].map((ms) => rampRate(back, T0 + 1000 + ms))).toEqual([40, 80]);
  });

  it.each([
    ['that failed', opened(), true],
    ['that asked for a second', opened(afterRefusal(CLOSED, { ...refused, forMs: 1000 })), false],
    ['that asked for a minute', opened(afterRefusal(CLOSED, { ...refused, forMs: 60_000 })), true],
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
      kind: fc.constantFrom('fail', 'answer', 'refuse', 'none'),
      afterMs: fc.integer({ min: 0, max: 90_000 }),
      isProbe: fc.boolean(),
      willRepeat: fc.boolean(),
      forMs: fc.integer({ min: 1, max: 1e12 }),
      random: fc.double({ min: 0, max: 0.999, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), fc.integer({ min: 1, max: 12 }), (events, threshold) => {
        let circuit: Circuit = CLOSED;
        let at = T0;
        let inARow = 0;
        let isProbing = false;
        for (const { kind, afterMs, forMs, random, ...given } of events) {
          at += afterMs;
          const before: Circuit = circuit;
          if (before.phase === 'open' && !isProbing && mayProbe(before, at)) {
            circuit = beginProbe(before, at, 3_600_000);
            isProbing = true;
            expect(mayProbe(opened(circuit), at)).toBe(false);
          }
          const isProbe = given.isProbe && isProbing;
          const about = { ...given, at, isProbe, threshold, perSecond: 1, random: () => random };
          if (kind === 'fail') circuit = afterRequest(circuit, { kind: 'failed', error: 'x' }, about);
          else if (kind === 'refuse') circuit = afterRequest(circuit, { kind: 'refused', error: 'x', forMs }, about);
          else if (kind === 'answer') circuit = afterRequest(circuit, { kind: 'answered' }, about);
          else circuit = afterRequest(circuit, { kind: 'none', ...(given.willRepeat && { error: 'x' }) }, about);
          if (isProbe) isProbing = false;
          inARow = kind === 'fail' ? inARow + 1 : kind === 'answer' ? 0 : inARow;
          if (before.phase === 'closed' && circuit.phase === 'open') {
            expect(kind === 'refuse' || inARow >= Math.min(threshold, 5)).toBe(true);
          }
          if (circuit.phase === 'open') {
            expect(circuit.probeAt - at).toBeLessThanOrEqual(3_600_000);
            if (!isProbing) expect(mayProbe(circuit, circuit.probeAt + 10_000)).toBe(true);
            expect(openCircuit.safeParse(circuit).success).toBe(true);
            // Only a probe closes it.
            if (!isProbe && before.phase === 'open') expect(circuit.phase).toBe('open');
          } else if (before.phase === 'open') expect(isProbe && kind === 'answer').toBe(true);
        }
      }),
    );
  });
});
