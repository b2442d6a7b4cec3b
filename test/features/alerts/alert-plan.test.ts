import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type AlertState,
  type Cause,
  countWaiting,
  type Incident,
  NO_ALERTS,
  planAlerts,
} from '../../../src/features/alerts/alert-plan.ts';
import { ALERT_KINDS, type AlertTarget } from '../../../src/features/alerts/targets.ts';

const START = Date.UTC(2026, 10, 22, 3);
const SECOND = 1000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

function target(change: object = {}): AlertTarget {
  return {
    name: 'ops',
    type: 'slack',
    url: 'https://example.com',
    kinds: ALERT_KINDS,
    severities: ['error', 'warning'],
    intervalSeconds: 60,
    ...change,
  } as AlertTarget;
}

const pager = (change: object = {}) => target({ name: 'pager', type: 'pagerduty', intervalSeconds: 5, ...change });

function cause(name: string, change: Partial<Cause> = {}): Cause {
  return {
    key: `attention ${name}`,
    kind: 'schedule_overdue',
    severity: 'error',
    flow: { id: `id of ${name}`, name },
    trigger: null,
    text: `${name} is overdue`,
    link: `/${name}`,
    ...change,
  };
}

type Happened = Omit<Incident, 'at'> & { readonly at?: number };

function incident(name: string, change: Partial<Incident> = {}): Happened {
  return {
    ...cause(name, { key: `run.failed ${name}`, kind: 'run.failed', text: `A run of ${name} failed` }),
    count: 1,
    what: [`run of ${name} failed`, `runs of ${name} failed`],
    allLink: `/all/${name}`,
    ...change,
  };
}

interface Look {
  readonly happened?: readonly Happened[];
  readonly lasting?: readonly Cause[];
  readonly over?: readonly string[];
  readonly inFlight?: readonly string[];
  readonly toldDirectly?: readonly (Cause & { since: number; isDoubtful?: boolean })[];
}

/** Looks repeatedly, each time with the state of the previous look. */
function watching(...targets: readonly AlertTarget[]) {
  let state: AlertState = NO_ALERTS;
  let now = START;
  let runs = 0;
  const told = targets.length === 0 ? [target()] : targets;
  return {
    get state() {
      return state;
    },
    get now() {
      return now;
    },
    look(afterMs: number, { happened = [], over, inFlight = [], ...rest }: Look = {}) {
      now += afterMs;
      const planned = planAlerts({
        ...rest,
        happened: happened.map((each) => ({ at: now, ...each })),
        over: new Set(over),
        inFlight: new Set(inFlight),
        targets: told,
        now,
        repeatMs: HOUR,
        newId: () => `run ${++runs}`,
        // As the store keeps it.
        state: JSON.parse(JSON.stringify(state)),
      });
      state = planned.state;
      return planned.messages.map(({ target: name, changes, more }) => ({
        name,
        lines: changes.map(({ status, text }) => `${status}: ${text}`),
        ...(more > 0 && { more }),
      }));
    },
    waiting: (name: string) => {
      const asked = told.find((each) => each.name === name);
      return asked === undefined ? undefined : countWaiting(asked, { state, repeatMs: HOUR, now });
    },
  };
}

const ops = (...lines: string[]) => ({ name: 'ops', lines });
const paged = (...lines: string[]) => lines.map((line) => ({ name: 'pager', lines: [line] }));

describe('what people are told', () => {
  it('is the same cause once in an hour, and then how often it happened since', () => {
    const { look } = watching();
    expect(look(0, { happened: [incident('a')] })).toEqual([ops('firing: A run of a failed')]);
    expect(look(5 * SECOND, { happened: [incident('a')] })).toEqual([]);
    expect(look(10 * MINUTE, { happened: [incident('a', { count: 7 })] })).toEqual([]);
    expect(look(HOUR)).toEqual([ops('firing: 8 more runs of a failed since 2026-11-22T03:00Z')]);
    expect(look(HOUR)).toEqual([]);
    expect(look(5 * SECOND, { happened: [incident('a')] })).toEqual([
      ops('firing: 1 more run of a failed since 2026-11-22T04:10Z'),
    ]);
  });

  it.each(['constructor', 'toString', '__proto__'])('reaches a target of the name %s as any other', (name) => {
    const { look, waiting } = watching(target({ name }));
    expect(waiting(name)).toBe(0);
    expect(look(0, { happened: [incident('a')] })).toEqual([{ name, lines: ['firing: A run of a failed'] }]);
    expect(look(5 * SECOND, { happened: [incident('a')] })).toEqual([]);
  });

  it('is gathered into one message in the interval of a target, each cause with its name', () => {
    const { look, waiting } = watching();
    expect(look(0, { happened: [incident('a')] })).toHaveLength(1);
    expect(look(5 * SECOND, { happened: [incident('b')] })).toEqual([]);
    expect(look(5 * SECOND, { happened: [incident('c')] })).toEqual([]);
    expect(waiting('ops')).toBe(2);
    expect(look(MINUTE)).toEqual([ops('firing: A run of b failed', 'firing: A run of c failed')]);
    expect(waiting('ops')).toBe(0);
  });

  it('is ten lines and a number, the worst first', () => {
    const { look, state } = watching();
    expect(state.alerts).toEqual({});
    const happened = Array.from({ length: 22 }, (_, n) =>
      incident(`f${n}`, { severity: n === 21 ? 'error' : 'warning' }),
    );
    const [message] = look(0, { happened });
    expect(message).toMatchObject({ more: 12, lines: { length: 10 } });
    expect(message?.lines[0]).toBe('firing: A run of f21 failed');
    expect(look(HOUR)).toEqual([]);
  });

  it('is how often a failure happened before it could be told', () => {
    const { look } = watching();
    look(0, { happened: [incident('a')] });
    look(SECOND, { happened: [incident('b')] });
    look(SECOND, { happened: [incident('b', { count: 4 })] });
    expect(look(MINUTE)).toEqual([ops('firing: A run of b failed')]);
    expect(look(HOUR)).toEqual([ops('firing: 4 more runs of b failed since 2026-11-22T03:01Z')]);
  });

  it('is what a target names: kinds, severities, and flows by id or name', () => {
    const all = ['error', 'warning', 'info'];
    const { look } = watching(
      target({ name: 'all', severities: all }),
      target({ name: 'deploys', kinds: ['deploy.refused'] }),
      target({ name: 'errors', severities: ['error'] }),
      target({ name: 'byId', flows: ['ID OF A'.toLowerCase()] }),
      target({ name: 'byName', flows: ['a', 'x'] }),
      target({ name: 'other', flows: ['b'] }),
    );
    const names = (messages: readonly { name: string }[]) => messages.map(({ name }) => name);
    expect(names(look(0, { happened: [incident('a', { severity: 'warning' })] }))).toEqual(['all', 'byId', 'byName']);
    const general = cause('disk', { flow: null });
    expect(names(look(MINUTE, { lasting: [general] }))).toEqual(['all', 'errors']);
    expect(names(look(MINUTE, { lasting: [general, cause('note', { severity: 'info' })] }))).toEqual(['all']);
  });

  it('is a condition once a day while it lasts, in its words of then', () => {
    const { look } = watching();
    expect(look(0, { lasting: [cause('slots', { text: '1 step waits' })] })).toEqual([ops('firing: 1 step waits')]);
    expect(look(HOUR, { lasting: [cause('slots', { text: '2 steps wait' })] })).toEqual([]);
    expect(look(24 * HOUR, { lasting: [cause('slots', { text: '3 steps wait' })] })).toEqual([
      ops('firing: 3 steps wait'),
    ]);
    // If the conditions are unknown, none counts as over.
    expect(look(2 * HOUR)).toEqual([]);
  });

  it('is that a condition is over, once it stayed away for 15 seconds, and that it came back', () => {
    const { look } = watching();
    const lasting = [cause('slots')];
    look(0, { lasting });
    expect(look(MINUTE, { lasting: [] })).toEqual([]);
    expect(look(10 * SECOND, { lasting })).toEqual([]);
    expect(look(10 * SECOND, { lasting: [] })).toEqual([]);
    expect(look(15 * SECOND, { lasting: [] })).toEqual([ops('resolved: slots is overdue')]);
    expect(look(MINUTE, { lasting })).toEqual([ops('firing: slots is overdue')]);
    // A condition that comes and goes is over after an hour.
    expect(look(MINUTE, { lasting: [] })).toEqual([]);
    expect(look(59 * MINUTE, { lasting: [] })).toEqual([]);
    expect(look(MINUTE, { lasting: [] })).toEqual([ops('resolved: slots is overdue')]);
  });

  it('is that a failure is over, and how often it happened since', () => {
    const { look } = watching();
    look(0, { happened: [incident('a')] });
    look(MINUTE, { happened: [incident('a', { count: 2 })], over: ['run.failed a'] });
    // It happened again after it was found to be over.
    expect(look(MINUTE)).toEqual([]);
    expect(look(5 * SECOND, { over: ['run.failed a'] })).toEqual([]);
    expect(look(15 * SECOND)).toEqual([ops('resolved: A run of a failed; 2 more runs of a failed')]);
  });

  it('is that a failure is over which did not come again for a day', () => {
    const { look } = watching();
    look(0, { happened: [incident('a')] });
    expect(look(24 * HOUR - 1)).toEqual([]);
    expect(look(1)).toEqual([ops('resolved: A run of a failed')]);
    expect(look(MINUTE)).toEqual([]);
  });

  it('is what was over before it could be told, too', () => {
    const { look, state } = watching(target({ intervalSeconds: 2 * 3600 }));
    look(0, { happened: [incident('a')] });
    look(SECOND, { happened: [incident('b')] });
    look(SECOND, { over: ['run.failed b'] });
    look(15 * SECOND);
    look(HOUR);
    expect(state).toBeDefined();
    expect(look(HOUR)).toEqual([ops('resolved: A run of b failed')]);
    expect(look(4 * HOUR)).toEqual([]);
  });

  it('stays due though the clock was set back', () => {
    const { look } = watching();
    look(0, { happened: [incident('a')] });
    expect(look(-24 * HOUR, { happened: [incident('b')] })).toEqual([ops('firing: A run of b failed')]);
  });
});

describe('what programs are told', () => {
  it('is each cause that fires and ends, once, a message for each', () => {
    const { look } = watching(pager());
    expect(look(0, { happened: [incident('a')], lasting: [cause('slots')] })).toEqual(
      paged('firing: A run of a failed', 'firing: slots is overdue'),
    );
    expect(look(HOUR, { happened: [incident('a')], lasting: [cause('slots')] })).toEqual([]);
    expect(look(20 * HOUR, { lasting: [cause('slots')] })).toEqual([]);
    look(SECOND, { over: ['run.failed a'], lasting: [] });
    expect(look(15 * SECOND, { lasting: [] })).toEqual(
      paged('resolved: A run of a failed', 'resolved: slots is overdue'),
    );
    expect(look(HOUR, { lasting: [] })).toEqual([]);
    expect(look(5 * SECOND, { happened: [incident('a')] })).toEqual(paged('firing: A run of a failed'));
  });

  it('is a second outage in the same minute, by name', () => {
    const { look } = watching(pager());
    look(0, { happened: [incident('a')] });
    expect(look(5 * SECOND, { happened: [incident('b')] })).toEqual(paged('firing: A run of b failed'));
  });

  it('is never left out: what is more than ten waits for the next interval', () => {
    const { look, waiting } = watching(pager());
    const lasting = Array.from({ length: 25 }, (_, n) => cause(`f${n}`));
    expect(look(0, { lasting })).toHaveLength(10);
    expect(look(SECOND, { lasting })).toEqual([]);
    expect(waiting('pager')).toBe(15);
    expect(look(5 * SECOND, { lasting })).toHaveLength(10);
    expect(look(5 * SECOND, { lasting })).toHaveLength(5);
    look(5 * SECOND, { lasting: [] });
    expect([15, 5, 5, 5].map((seconds) => look(seconds * SECOND, { lasting: [] }).length)).toEqual([10, 10, 5, 0]);
  });

  it('is no end before the beginning has arrived, however long that takes', () => {
    const { look } = watching(pager());
    look(0, { lasting: [cause('slots')] });
    look(SECOND, { lasting: [] });
    expect(look(15 * SECOND, { lasting: [], inFlight: ['run 1'] })).toEqual([]);
    expect(look(9 * HOUR, { lasting: [], inFlight: ['run 1'] })).toEqual([]);
    expect(look(5 * SECOND, { lasting: [] })).toEqual(paged('resolved: slots is overdue'));
  });

  it('is nothing of what was over before they could be told', () => {
    const { look } = watching(pager({ intervalSeconds: 60 }));
    look(0, { happened: [incident('a')] });
    look(SECOND, { happened: [incident('b')] });
    look(SECOND, { over: ['run.failed b'] });
    expect(look(15 * SECOND)).toEqual([]);
    expect(look(MINUTE)).toEqual([]);
  });

  it('is the end of what they no longer want to hear of', () => {
    const one = watching(pager());
    one.look(0, { lasting: [cause('slots')] });
    const planned = planAlerts({
      state: one.state,
      lasting: [cause('slots')],
      targets: [pager({ kinds: ['run.failed'] })],
      repeatMs: HOUR,
      now: one.now + MINUTE,
      newId: () => 'run',
    });
    expect(planned.messages).toMatchObject([{ changes: [{ status: 'resolved', key: 'attention slots' }] }]);
  });
});

describe('what was told directly', () => {
  const away = { ...cause('store', { key: 'not_ready', kind: 'not_ready' }), since: START };

  it('is over for all who were told', () => {
    const { look } = watching(target(), pager(), target({ name: 'other', kinds: ['run.failed'] }));
    expect(look(MINUTE, { toldDirectly: [away] })).toEqual([
      ops('resolved: store is overdue'),
      ...paged('resolved: store is overdue'),
    ]);
    expect(look(HOUR)).toEqual([]);
  });

  it('is over for programs alone where nobody knows whether it was told', () => {
    const { look } = watching(target(), pager());
    expect(look(MINUTE, { toldDirectly: [{ ...away, isDoubtful: true }] })).toEqual(
      paged('resolved: store is overdue'),
    );
    expect(look(HOUR)).toEqual([]);
  });
});

describe('what is remembered', () => {
  it('stays as it is where nothing happened', () => {
    const watch = watching(target(), pager());
    watch.look(0, { happened: [incident('a')], lasting: [cause('slots')] });
    const before = JSON.stringify(watch.state);
    watch.look(5 * SECOND, { lasting: [cause('slots', { text: 'other numbers' })] });
    expect(JSON.stringify(watch.state)).toBe(before);
  });

  it('is forgotten an hour after its end was told', () => {
    const watch = watching(target(), pager());
    watch.look(0, { lasting: [cause('slots')] });
    watch.look(SECOND, { lasting: [] });
    watch.look(MINUTE, { lasting: [] });
    watch.look(HOUR, { lasting: [] });
    expect(watch.state.alerts).toEqual({});
    expect(Object.values(watch.state.targets).map(({ told }) => told)).toEqual([{}, {}]);
  });

  it('is two thousand alerts: more are told later if they last, and what is over makes room', () => {
    const watch = watching(pager({ type: 'slack', intervalSeconds: 1 }));
    const named = (from: number) => Array.from({ length: 1500 }, (_, n) => cause(`f${from + n}`));
    watch.look(0, { lasting: [...named(0), ...named(1500)] });
    expect(Object.keys(watch.state.alerts)).toHaveLength(2000);
    watch.look(SECOND, { lasting: named(1500) });
    watch.look(15 * SECOND, { lasting: named(1500) });
    watch.look(SECOND, { lasting: named(1500) });
    expect(named(1500).filter(({ key }) => watch.state.alerts[key] === undefined)).toEqual([]);
    expect(Object.keys(watch.state.alerts)).toHaveLength(2000);
  });

  it('nothing of what ended before a target was named', () => {
    const watch = watching(target());
    watch.look(0, { lasting: [cause('gone'), cause('here')] });
    watch.look(SECOND, { lasting: [cause('here')] });
    watch.look(15 * SECOND, { lasting: [cause('here')] });
    const { messages } = planAlerts({
      state: watch.state,
      lasting: [cause('here')],
      targets: [target(), target({ name: 'new' })],
      repeatMs: HOUR,
      now: watch.now + SECOND,
      newId: () => 'run',
    });
    expect(messages.map(({ target: name, changes }) => [name, changes.map(({ text }) => text)])).toEqual([
      ['new', ['here is overdue']],
    ]);
  });
});

describe('whatever happens', () => {
  const looks = fc.array(
    fc.record({
      afterMs: fc.integer({ min: 0, max: 10 * MINUTE }),
      flows: fc.array(fc.record({ n: fc.integer({ min: 0, max: 30 }), count: fc.integer({ min: 1, max: 9 }) })),
      over: fc.array(fc.integer({ min: 0, max: 30 })),
      lasting: fc.option(fc.uniqueArray(fc.integer({ min: 31, max: 60 })), { nil: undefined }),
    }),
    { maxLength: 60 },
  );
  const lookOf = ({
    flows,
    over,
    lasting,
  }: {
    flows: { n: number; count: number }[];
    over: number[];
    lasting: number[] | undefined;
  }): Look => ({
    happened: flows.map(({ n, count }) => incident(`f${n}`, { count })),
    over: over.map((n) => `run.failed f${n}`),
    ...(lasting && { lasting: lasting.map((n) => cause(`f${n}`)) }),
  });

  it('time bounds the messages to people, and everything that happened is told or counted', () => {
    fc.assert(
      fc.property(looks, (all) => {
        const watch = watching();
        let passed = 0;
        let messages = 0;
        let hasMore = false;
        const happened = new Set<number>();
        const named = new Set<number>();
        const note = (told: ReturnType<typeof watch.look>) => {
          for (const message of told) {
            messages += 1;
            hasMore ||= message.more !== undefined;
            expect(message.lines.length).toBeLessThanOrEqual(10);
            for (const line of message.lines) named.add(Number(/ f(\d+) /.exec(line)?.[1]));
          }
        };
        for (const { afterMs, ...each } of all) {
          passed += afterMs;
          for (const { n } of each.flows) happened.add(n);
          note(watch.look(afterMs, lookOf(each)));
        }
        expect(messages).toBeLessThanOrEqual(1 + passed / MINUTE);
        note(watch.look(HOUR));
        if (!hasMore) expect([...happened].filter((n) => !named.has(n))).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  it('a program hears of each cause firing and resolved in turns, and that nothing fires once all is over', () => {
    fc.assert(
      fc.property(looks, (all) => {
        const watch = watching(pager());
        const last = new Map<string, string>();
        const note = (told: ReturnType<typeof watch.look>) => {
          for (const { lines } of told) {
            const [, status = '', text = ''] = /^(\w+): (.*)$/.exec(lines[0] ?? '') ?? [];
            expect([status, last.get(text) ?? 'resolved']).not.toEqual([status, status]);
            last.set(text, status);
          }
        };
        for (const { afterMs, ...each } of all) note(watch.look(afterMs, lookOf(each)));
        for (let n = 0; n < 20; n += 1) note(watch.look(25 * HOUR, { lasting: [] }));
        expect([...last.values()].filter((status) => status === 'firing')).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});
