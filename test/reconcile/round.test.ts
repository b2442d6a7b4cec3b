import { describe, expect, it } from 'vitest';
import { LogError } from '../../src/reconcile/ask-log.ts';
import { LeaseLostError, type Round, type RoundServices, runRound } from '../../src/reconcile/round.ts';
import {
  type Source,
  type SourceAnswer,
  SourceError,
  type SourceItem,
  type SourceRequest,
} from '../../src/reconcile/source.ts';
import { type ReconcileState, stateOf } from '../../src/reconcile/state.ts';
import type { PreparedTrigger } from '../../src/webhooks/triggers.ts';

const HOUR_MS = 3_600_000;
const NOW = Date.parse('2026-11-27T12:00:00Z');
const BEGUN: ReconcileState = stateOf(null, { log: 'a', since: NOW - 20 * HOUR_MS, now: NOW });

const item = (id: string, sentAt: number, more: Partial<SourceItem> = {}): SourceItem => ({
  ...{ id, sentAt, headers: {}, ...more },
});
const many = (count: number, more: (at: number) => Partial<SourceItem> = () => ({})) =>
  Array.from({ length: count }, (_, at) => item(`i${at}`, NOW - HOUR_MS + at, more(at)));

interface Given {
  readonly items: readonly SourceItem[];
  readonly sent?: Source['sent'];
  readonly revision?: number;
  readonly days?: number;
  readonly lookback?: string;
  readonly state?: ReconcileState;
  readonly ask?: (request: SourceRequest) => Promise<SourceAnswer>;
  readonly isEndless?: boolean;
  /** After how many fetched deliveries the trigger names another log, or the process ends. */
  readonly untilOther?: number;
  readonly untilKilled?: number;
}

const EMPTY: SourceAnswer = { status: 200, headers: {}, text: '[]', json: [] };

const refuse: Source['sent'] = () => {
  throw new SourceError('it is none');
};

/** Looks at a log that lists the items again and again, as one process; a trigger that is not there takes nothing now. */
function looking() {
  const settled = new Set<string>();
  const refused = new Map<string, number>();
  return async ({ items, sent = refuse, revision = 1, days = 30, lookback = 'P1D', ...given }: Given) => {
    const fetched: string[] = [];
    const noted: ReconcileState[] = [];
    const windows: { since: number; until: number }[] = [];
    const trigger = { inputs: {}, reconcile: { lookback }, flowId: 'f', triggerKey: 't' };
    const eventIdentity = { expression: 'body.id', days };
    const prepared = { trigger, eventIdentity, flow: { record: { revision } } } as unknown as PreparedTrigger;
    const source: Source = {
      graceMs: 0,
      list: (window) => {
        windows.push(window);
        return { method: 'GET', url: 'https://api.example.com/', headers: {} };
      },
      read: (_, window) => ({ items, ...(given.isEndless === true && { next: source.list(window) }) }),
      sent: (each, detail) => {
        fetched.push(each.id);
        return sent(each, detail);
      },
    };
    const round: Round = {
      ...{ name: { flowId: 'f', triggerKey: 't' }, prepared, source, secrets: [], state: given.state ?? BEGUN },
      ...{ settled, troubled: new Set<string>(), refused, signal: new AbortController().signal },
      isCurrent: () => fetched.length < (given.untilOther ?? Number.POSITIVE_INFINITY),
      note: async (state) => {
        noted.push(state);
        if (fetched.length >= (given.untilKilled ?? Number.POSITIVE_INFINITY)) throw new Error('killed');
        return true;
      },
    };
    const services = {
      ask: async (request, _, use) => use(await (given.ask?.(request) ?? EMPTY)),
      clock: { now: () => NOW, monotonic: () => 0, ledger: () => NOW },
      store: { areAccepted: async ({ names }: { names: readonly unknown[] }) => names.map(() => false) },
      triggers: () => ({ list: () => [] }),
      pause: async () => {},
    } as Pick<RoundServices, 'ask'> as RoundServices;
    const ended = runRound(round, services);
    return { fetched, noted, windows, ended };
  };
}

describe('what is refused', () => {
  it('is fetched once, however much of it there is', async () => {
    const look = looking();
    const first = await look({ items: many(700) });
    const { state } = await first.ended;
    expect(first.fetched).toHaveLength(700);
    const second = await look({ items: many(700), state });
    await second.ended;
    expect(second.fetched).toEqual([]);
  });

  it('is tried by the next revision, also where the first look of that is killed', async () => {
    const old = many(10).map(({ id }) => item(id, NOW - 10 * HOUR_MS));
    const { state } = await (await looking()({ items: old })).ended;
    const killed = await looking()({ items: old, state, revision: 2, untilKilled: 3 });
    await expect(killed.ended).rejects.toThrow('killed');
    const after = await looking()({ items: old, state: killed.noted.at(-1) ?? state, revision: 2 });
    await after.ended;
    expect([...killed.fetched, ...after.fetched].sort()).toEqual(old.map(({ id }) => id));
  });

  it('is that whose contents cannot be read, and the others go on', async () => {
    const { ended, fetched } = await looking()({
      items: many(3),
      sent: ({ id }) => {
        if (id === 'i0') throw new RangeError('Maximum call stack size exceeded');
        return { headers: { 'x-long': 'h'.repeat(100_000) }, bodies: [Buffer.from('{}')] };
      },
    });
    const { state } = await ended;
    expect(fetched).toEqual(['i0', 'i1', 'i2']);
    expect(state).toMatchObject({ failure: null, gap: { refused: 3, refusedFor: expect.stringContaining('headers') } });
  });

  it('is remembered by a short name', async () => {
    const { state } = await (await looking()({ items: [item('g'.repeat(1_000_000), NOW - 1000)] })).ended;
    expect(JSON.stringify(state).length).toBeLessThan(1000);
  });
});

describe('a look with more than it fetches', () => {
  const detail = { method: 'GET', url: 'https://api.example.com/1', headers: {} } as const;

  it('is followed by another at once', async () => {
    const { ended, fetched } = await looking()({ items: many(1200) });
    const { isDone, state } = await ended;
    expect({ isDone, fetched: fetched.length }).toEqual({ isDone: false, fetched: 1000 });
    expect(state.settledTo).toBe(NOW - HOUR_MS + 999);
  });

  it.each(['refused', 'unavailable'] as const)('is not followed at once where the contents are %s', async (failure) => {
    const { ended } = await looking()({
      items: many(1200, () => ({ detail })),
      ask: async ({ url }) => {
        if (url === detail.url) throw new LogError(failure, 'answered with an error');
        return { status: 200, headers: {}, text: '[]', json: [] };
      },
    });
    expect(await ended).toMatchObject({ isDone: true, state: { failure: { kind: failure } } });
  });

  it('is not followed at once where nothing is taken now', async () => {
    const sent = () => ({ headers: {}, bodies: [Buffer.from('{}')] as const });
    expect(await (await looking()({ items: many(1200), sent })).ended).toMatchObject({ isDone: true });
  });

  it('settles nothing where not all pages were listed, so that the next look says so too', async () => {
    const { ended } = await looking()({
      items: many(3),
      isEndless: true,
      state: { ...BEGUN, settledTo: NOW - HOUR_MS },
    });
    const { state } = await ended;
    expect(state).toMatchObject({ settledTo: NOW - HOUR_MS, failure: { kind: 'not_understood' }, gap: { refused: 3 } });
  });

  it('holds a bounded number of bytes, and at least one delivery', async () => {
    const content = 'x'.repeat(7_000_000);
    const { ended, fetched } = await looking()({ items: many(5, () => ({ content })) });
    expect(await ended).toMatchObject({ isDone: false, state: { settledTo: NOW - HOUR_MS + 1 } });
    expect(fetched).toEqual(['i0', 'i1']);
  });
});

it('accepts nothing more of a log that the trigger no longer names', async () => {
  const { ended, fetched } = await looking()({ items: many(10), untilOther: 4 });
  await expect(ended).rejects.toThrow(LeaseLostError);
  expect(fetched).toHaveLength(4);
});

it('does not ask for the last hour in which an event may already be forgotten', async () => {
  const state = { ...BEGUN, since: 0 };
  const { windows } = await looking()({ items: [], state, days: 1, lookback: 'P1D' });
  expect(windows[0]?.since).toBe(NOW - 23 * HOUR_MS);
});
