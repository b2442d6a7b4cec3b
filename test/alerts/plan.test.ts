import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AlertState, NO_ALERTS, planAlerts, type Thing } from '../../src/alerts/plan.ts';
import type { AlertTarget } from '../../src/alerts/targets.ts';

const START = Date.UTC(2026, 10, 22, 3);
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

function target(change: object = {}): AlertTarget {
  return {
    name: 'ops',
    type: 'slack',
    url: 'https://example.com',
    events: ['run.failed', 'attention', 'deploy.refused'],
    intervalSeconds: 60,
    ...change,
  } as AlertTarget;
}

function thing(name: string, change: Partial<Thing> = {}): Thing {
  return {
    key: `run.failed ${name}`,
    event: 'run.failed',
    flow: { id: `id of ${name}`, name },
    text: `A run of ${name} failed`,
    link: `/${name}`,
    count: 1,
    what: `runs of ${name} failed`,
    ...change,
  };
}

/** Looks again and again, with the state of the look before. */
function watching(targets: readonly AlertTarget[] = [target()]) {
  let state: AlertState = NO_ALERTS;
  let now = START;
  return {
    get state() {
      return state;
    },
    look(afterMs: number, happened: readonly Thing[] = [], lasting?: readonly Thing[]) {
      now += afterMs;
      const given = { happened, lasting, targets, now, repeatMs: HOUR, newId: () => 'run' };
      // As the store keeps it.
      const planned = planAlerts({ ...given, state: JSON.parse(JSON.stringify(state)) });
      state = planned.state;
      return planned.messages.map(({ target: name, lines, more }) => ({
        name,
        lines: lines.map(({ text }) => text),
        ...(more > 0 && { more }),
      }));
    },
  };
}

const ops = (...lines: string[]) => ({ name: 'ops', lines });

describe('what targets are told', () => {
  it('is the same thing once in an hour, and then how often it happened since', () => {
    const { look } = watching();
    expect(look(0, [thing('a')])).toEqual([ops('A run of a failed')]);
    expect(look(5000, [thing('a')])).toEqual([]);
    expect(look(10 * MINUTE, [thing('a', { count: 7 })])).toEqual([]);
    expect(look(HOUR)).toEqual([ops('8 more runs of a failed since 2026-11-22T03:00Z')]);
    expect(look(HOUR)).toEqual([]);
    expect(look(5000, [thing('a')])).toEqual([ops('A run of a failed')]);
  });

  it('is gathered into one message in the interval of a target', () => {
    const { look } = watching();
    expect(look(0, [thing('a')])).toHaveLength(1);
    expect(look(5000, [thing('b')])).toEqual([]);
    expect(look(5000, [thing('c')])).toEqual([]);
    expect(look(MINUTE)).toEqual([ops('A run of b failed', 'A run of c failed')]);
  });

  it('is ten lines and a number', () => {
    const { look, state } = watching();
    expect(state.told).toEqual({});
    const flows = Array.from({ length: 22 }, (_, n) => thing(`f${n}`));
    expect(look(0, flows)).toMatchObject([{ more: 12, lines: { length: 10 } }]);
    expect(look(HOUR)).toEqual([]);
  });

  it('is what a target names: events, and flows by id or name', () => {
    const { look } = watching([
      target({ name: 'all' }),
      target({ name: 'deploys', events: ['deploy.refused'] }),
      target({ name: 'byId', flows: ['ID OF A'.toLowerCase()] }),
      target({ name: 'byName', flows: ['a', 'x'] }),
      target({ name: 'other', flows: ['b'] }),
    ]);
    expect(look(0, [thing('a')]).map(({ name }) => name)).toEqual(['all', 'byId', 'byName']);
    const general = thing('disk', { key: 'attention disk', event: 'attention', flow: null });
    expect(look(MINUTE, [], [general]).map(({ name }) => name)).toEqual(['all']);
  });

  it('is a condition once a day while it lasts, and again where it comes back after an hour', () => {
    const { look } = watching();
    const slots = thing('slots', { key: 'attention slots', event: 'attention', text: 'Slots' });
    expect(look(0, [], [slots])).toEqual([ops('Slots')]);
    expect(look(HOUR, [], [slots])).toEqual([]);
    expect(look(MINUTE, [], [])).toEqual([]);
    expect(look(MINUTE, [], [slots])).toEqual([]);
    expect(look(MINUTE, [], [])).toEqual([]);
    expect(look(HOUR, [], [])).toEqual([]);
    expect(look(MINUTE, [], [slots])).toEqual([ops('Slots')]);
    expect(look(24 * HOUR, [], [slots])).toEqual([ops('Slots')]);
    // Where nobody knows, nothing is forgotten.
    expect(look(2 * HOUR, [], undefined)).toEqual([]);
    expect(look(MINUTE, [], [slots])).toEqual([]);
  });

  it('stays due though the clock was set back', () => {
    const { look } = watching();
    look(0, [thing('a')]);
    expect(look(-24 * HOUR, [thing('b')])).toEqual([ops('A run of b failed')]);
  });

  it('is nothing new where nothing happened: the state stays as it is', () => {
    const watch = watching();
    watch.look(0, [thing('a')]);
    const before = JSON.stringify(watch.state);
    watch.look(5000);
    expect(JSON.stringify(watch.state)).toBe(before);
  });

  it('is remembered of two thousand things of a kind, the newest, though more happen or last', () => {
    const watch = watching();
    const named = (from: number) => Array.from({ length: 1500 }, (_, n) => thing(`f${from + n}`));
    watch.look(0, named(0), named(0));
    watch.look(1, named(1500), [...named(0), ...named(1500)]);
    for (const kept of [watch.state.told, watch.state.lasting]) {
      expect(Object.keys(kept)).toHaveLength(2000);
      expect(named(1500).filter(({ key }) => kept[key] === undefined)).toEqual([]);
    }
  });

  it('is bounded by time, whatever happens, and everything is told or counted', () => {
    const looks = fc.array(
      fc.record({
        afterMs: fc.integer({ min: 0, max: 10 * MINUTE }),
        flows: fc.array(fc.record({ n: fc.integer({ min: 0, max: 30 }), count: fc.integer({ min: 1, max: 9 }) })),
      }),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(looks, (all) => {
        const watch = watching();
        let passed = 0;
        let messages = 0;
        const kinds = new Set<number>();
        const named = new Set<number>();
        let hasMore = false;
        for (const { afterMs, flows } of all) {
          passed += afterMs;
          for (const { n } of flows) kinds.add(n);
          for (const message of watch.look(
            afterMs,
            flows.map(({ n, count }) => thing(`f${n}`, { count })),
          )) {
            messages += 1;
            hasMore ||= message.more !== undefined;
            expect(message.lines.length).toBeLessThanOrEqual(10);
            for (const line of message.lines) named.add(Number(/ f(\d+) /.exec(line)?.[1]));
          }
        }
        expect(messages).toBeLessThanOrEqual(1 + passed / MINUTE);
        // What still waits is told later.
        for (const { lines, more } of [watch.look(HOUR)[0] ?? { lines: [], more: 0 }]) {
          hasMore ||= (more ?? 0) > 0;
          for (const line of lines) named.add(Number(/ f(\d+) /.exec(line)?.[1]));
        }
        if (!hasMore) expect([...kinds].filter((n) => !named.has(n))).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});
