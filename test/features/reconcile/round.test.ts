import { describe, expect, it } from 'vitest';
import { LogError } from '../../../src/features/reconcile/ask-log.ts';
import { LeaseLostError, type Round, type RoundServices, runRound } from '../../../src/features/reconcile/round.ts';
import {
  type Source,
  type SourceAnswer,
  SourceError,
  type SourceItem,
  type SourceRequest,
} from '../../../src/features/reconcile/source.ts';
import { type ReconcileState, stateOf } from '../../../src/features/reconcile/state.ts';
import { GIVEN_UP_AFTER_DAYS, MOST_UNDECIDED } from '../../../src/features/reconcile/undecided.ts';
import type { DeliveryRecord } from '../../../src/model/delivery.ts';
import type { DeliveryNames } from '../../../src/store/store.ts';
import type { PreparedTrigger } from '../../../src/webhooks/triggers.ts';

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
  readonly accept?: RoundServices['accept'];
  readonly now?: number;
  readonly acceptedIds?: readonly string[];
  /** The trigger's event id. */
  readonly expression?: string;
  /** Throws to simulate a process that dies before or after a record is written. */
  readonly onRecord?: (when: 'before' | 'after') => void;
  readonly ask?: (request: SourceRequest) => Promise<SourceAnswer>;
  readonly isEndless?: boolean;
  /** After so many fetched deliveries the trigger names another log, or the process ends. */
  readonly untilOther?: number;
  readonly untilKilled?: number;
}

const EMPTY: SourceAnswer = { status: 200, headers: {}, text: '[]', json: [] };

const sendOne: Source['sent'] = () => ({ headers: {}, bodies: [Buffer.from('{}')] });
const refuse = async () => ({ kind: 'refused', reason: 'body_schema' }) as const;
const DAY_MS = 24 * HOUR_MS;

/** Looks repeatedly, as one process, at a log with the items; a trigger that does not exist accepts nothing now. */
function looking() {
  const settled = new Set<string>();
  const refused = new Map<string, number>();
  const records = new Map<string, DeliveryRecord>();
  let ids = 0;
  return async ({ items, sent = sendOne, revision = 1, days = 30, lookback = 'P1D', now = NOW, ...given }: Given) => {
    const fetched: string[] = [];
    const noted: ReconcileState[] = [];
    const windows: { since: number; until: number }[] = [];
    const reconcile = { from: 'github', lookback, every: 'PT15M' };
    const trigger = { inputs: {}, reconcile, flowId: 'f', triggerKey: 't' };
    const eventIdentity = { expression: given.expression ?? "headers['x-id']", days };
    const judgeByExpressions = (headers: SourceItem['headers']) => ({ eventId: headers['x-id'] });
    const prepared = {
      trigger,
      eventIdentity,
      judgeByExpressions,
      chain: [],
      gates: [],
      flow: { record: { revision } },
    } as unknown as PreparedTrigger;
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
      ask: async (request: SourceRequest, _: unknown, use: (answer: SourceAnswer) => unknown) =>
        use(await (given.ask?.(request) ?? EMPTY)),
      accept: given.accept ?? refuse,
      clock: { now: () => now, monotonic: () => 0, ledger: () => now },
      newId: () => `record ${ids++}`,
      store: {
        areAccepted: async ({ names }: { names: readonly DeliveryNames[] }) =>
          names.map(({ eventId }) => eventId !== undefined && given.acceptedIds?.includes(eventId) === true),
        findDelivery: async (id: string) => records.get(id),
        recordDelivery: async (record: DeliveryRecord) => {
          given.onRecord?.('before');
          if (records.has(record.id)) throw new Error('a second record of one id');
          records.set(record.id, record);
          given.onRecord?.('after');
        },
      },
      triggers: () => ({ list: () => [] }),
      pause: async () => {},
    } as unknown as RoundServices;
    const ended = runRound(round, services);
    return { fetched, noted, windows, ended, records };
  };
}

describe('a delivery that is listed without its contents', () => {
  const items = many(1, () => ({ headers: { 'x-id': 'one' } }));
  const look = (expression?: string) =>
    looking()({ items, acceptedIds: ['one'], ...(expression !== undefined && { expression }) });

  it('is known by an event id that its headers say', async () => {
    const { ended, fetched } = await look();
    await ended;
    expect(fetched).toEqual([]);
  });

  it.each(['body.id', 'envelope.id'])('is fetched where its event id is %s', async (expression) => {
    const { ended, fetched } = await look(expression);
    await ended;
    expect(fetched).toEqual(['i0']);
  });
});

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
    const accept = async () => ({ kind: 'not now' }) as const;
    expect(await (await looking()({ items: many(1200), accept })).ended).toMatchObject({ isDone: true });
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

const accept = async () => ({ kind: 'accepted', runId: 'r' }) as const;
const detailOf = (id: string) => ({ method: 'GET', url: `https://api.example.com/${id}`, headers: {} }) as const;
const withDetails = (count: number) =>
  Array.from({ length: count }, (_, at) => item(`i${at}`, NOW - HOUR_MS + at, { detail: detailOf(`i${at}`) }));
/** A log that fails when asked for the contents of these. */
const failing =
  (ids: readonly string[], error: () => Error): NonNullable<Given['ask']> =>
  async ({ url }) => {
    if (ids.some((id) => url === detailOf(id).url)) throw error();
    return EMPTY;
  };

describe('a delivery whose contents cannot be had', () => {
  it.each<[string, () => Error]>([
    ['404', () => new LogError('not_found', 'answered 404')],
    ['451', () => new LogError('not_understood', 'answered 451')],
    ['cut JSON', () => new LogError('not_understood', 'answered with what is not JSON')],
    ['500', () => new LogError('unavailable', 'answered 500')],
    ['403', () => new LogError('refused', 'answered 403')],
    ['429', () => new LogError('rate_limited', 'answered 429')],
    ['another form', () => new SourceError('has no payload')],
  ])('is asked for again after one answer of %s, after those that are new', async (_, error) => {
    const look = looking();
    const items = withDetails(3);
    const { state } = await (await look({ items, accept, ask: failing(['i0'], error) })).ended;
    expect(state.undecided[0]).toMatchObject({ id: 'i0', tries: 1 });
    const more = [...items, item('i9', NOW + 1, { detail: detailOf('i9') })];
    const second = await look({ items: more, accept, state: { ...state, notBefore: null }, now: NOW + HOUR_MS });
    const { state: after } = await second.ended;
    expect(second.fetched.at(-1)).toBe('i0');
    expect(second.fetched).toContain('i9');
    expect(after).toMatchObject({ undecided: [], gap: { count: 4, refused: 0 } });
  });

  it.each<[string, Source['sent']]>([
    [
      'that cannot be read',
      ({ id }) => {
        if (id === 'i0') throw new RangeError('Maximum call stack size exceeded');
        return { headers: {}, bodies: [Buffer.from('{}')] };
      },
    ],
    [
      'that no request may have',
      ({ id }) => ({ headers: { 'x-long': id === 'i0' ? 'h'.repeat(100_000) : '' }, bodies: [Buffer.from('{}')] }),
    ],
  ])('is asked for again after contents %s, and the others go on', async (_, sent) => {
    const { ended, fetched } = await looking()({ items: many(3), sent, accept });
    const { state } = await ended;
    expect(fetched).toEqual(['i0', 'i1', 'i2']);
    expect(state).toMatchObject({ failure: null, gap: { count: 2, refused: 0 }, undecided: [{ id: 'i0' }] });
  });

  it('is asked for less and less often', async () => {
    const look = looking();
    const [ask, items] = [failing(['i0'], () => new LogError('not_found', 'answered 404')), withDetails(1)];
    let { state } = await (await look({ items, ask })).ended;
    for (let hour = 1; hour <= 4 * 24; hour += 1) {
      const looks = [0, 15, 30, 45].map((minutes) => NOW + hour * HOUR_MS + minutes * 60_000);
      for (const now of looks) ({ state } = await (await look({ items, ask, state, now })).ended);
      if (hour === 24) expect(state.undecided[0]?.tries).toBeLessThan(30);
      if (hour < 24 * (1 + GIVEN_UP_AFTER_DAYS) - 1) expect(state.undecided).toHaveLength(1);
    }
    expect(state.undecided).toEqual([]);
  });

  it('is one of few that one look asks for again, and every one has its turn', async () => {
    const look = looking();
    const ids = withDetails(120).map(({ id }) => id);
    const items = withDetails(120);
    const undecided = ids.map((id, at) => ({
      ...{ id, sentAt: NOW - HOUR_MS + at, cause: '', names: {}, since: NOW, tries: 5, why: '', nextAt: NOW },
      ...{ missingSince: null, record: null },
    }));
    let state: ReconcileState = { ...BEGUN, undecided };
    const asked: string[] = [];
    const ask: Given['ask'] = async ({ url }) => {
      if (url !== 'https://api.example.com/') asked.push(url);
      return url === 'https://api.example.com/' ? EMPTY : Promise.reject(new LogError('not_found', 'answered 404'));
    };
    for (let n = 0; n < 6; n += 1) {
      const before = asked.length;
      ({ state } = await (await look({ items, ask, state })).ended);
      expect(asked.length - before).toBeLessThanOrEqual(50);
    }
    expect(new Set(asked).size).toBe(120);
  });

  it('leaves what a look did not come to for the next one, however old it is', async () => {
    const look = looking();
    const items = withDetails(40);
    const ask = failing(
      items.map(({ id }) => id),
      () => new LogError('unavailable', 'answered 500'),
    );
    let { state } = await (await look({ items, ask })).ended;
    const fetched: string[] = [];
    for (let n = 1; n <= 3; n += 1) {
      const now = NOW + DAY_MS + n * HOUR_MS;
      const next = await look({ items, accept, state, now });
      ({ state } = await next.ended);
      fetched.push(...next.fetched);
    }
    expect(fetched.toSorted()).toEqual(items.map(({ id }) => id).toSorted());
  });

  it('has a record where no look came to it before the log dropped it', async () => {
    const look = looking();
    const items = withDetails(120).map((each, at) => ({ ...each, headers: { 'x-id': `e${at}` } }));
    const ask = failing(
      items.map(({ id }) => id),
      () => new LogError('refused', 'answered 403'),
    );
    const broken = await (await look({ items, ask })).ended;
    const kept = await look({ items, accept, state: broken.state, now: NOW + HOUR_MS });
    expect((await kept.ended).state.undecided).toEqual([]);
    expect(kept.fetched).toHaveLength(120);
    let { state } = broken;
    const other = looking();
    const acceptedIds = ['e7'];
    for (const hours of [1, 2, 3, 27]) {
      ({ state } = await (await other({ items: [], acceptedIds, state, now: NOW + hours * HOUR_MS })).ended);
    }
    const { records } = await other({ items: [], state });
    expect(state).toMatchObject({ undecided: [], gap: { givenUp: 119 } });
    expect(records.size).toBe(119);
  });

  it('has one record where it is too old, although the log still lists it', async () => {
    const look = looking();
    const items = withDetails(40);
    const ask = failing(
      items.map(({ id }) => id),
      () => new LogError('refused', 'answered 403'),
    );
    let { state } = await (await look({ items, ask })).ended;
    for (const hours of [0, 1, 2]) {
      const now = NOW + (GIVEN_UP_AFTER_DAYS + 1) * DAY_MS + hours * HOUR_MS;
      ({ state } = await (await look({ items, ask, state, now })).ended);
    }
    expect((await look({ items, state })).records.size).toBe(40);
  });

  it('is not lost where a later page of its list could not be had', async () => {
    const look = looking();
    let asked = 0;
    const ask = async () => {
      asked += 1;
      if (asked === 2) throw new LogError('unavailable', 'answered 500');
      return EMPTY;
    };
    const { state } = await (await look({ items: many(3), ask, isEndless: true })).ended;
    const next = await look({ items: many(3), accept, state, now: NOW + 2 * DAY_MS });
    await next.ended;
    expect(next.fetched).toHaveLength(3);
  });

  it('stays open in the log where the state has no place for more', async () => {
    const look = looking();
    const undecided = Array.from({ length: MOST_UNDECIDED }, (_, at) => ({
      ...{ id: `u${at}`, sentAt: NOW - at, cause: '', names: {}, since: NOW, tries: 9, why: '', nextAt: NOW + DAY_MS },
      ...{ missingSince: null, record: null },
    }));
    const items = withDetails(2);
    const ask = failing(['i0'], () => new LogError('not_found', 'answered 404'));
    const { state } = await (await look({ items, ask, accept, state: { ...BEGUN, undecided } })).ended;
    expect(state).toMatchObject({ settledTo: NOW - HOUR_MS - 1, openFrom: NOW - HOUR_MS, gap: { count: 1 } });
    const later = await look({ items, accept, state, now: NOW + 2 * DAY_MS });
    await later.ended;
    expect(later.fetched).toContain('i0');
  });
});

describe('a delivery that is given up', () => {
  const end = NOW + (GIVEN_UP_AFTER_DAYS + 1) * DAY_MS;
  const bad = failing(['i0'], () => new LogError('not_found', 'answered 404: Not Found'));
  const begin = async () => {
    const look = looking();
    const { state } = await (await look({ items: withDetails(1), ask: bad })).ended;
    return { look, state };
  };

  it('has one record, whenever its process dies', async () => {
    for (const when of ['before', 'after'] as const) {
      const { look, state } = await begin();
      const killed = await look({
        ...{ items: [], state, now: end },
        onRecord: (at) => {
          if (at === when) throw new Error('killed');
        },
      });
      await expect(killed.ended).rejects.toThrow('killed');
      const next = await look({ items: [], state: killed.noted.at(-1) ?? state, now: end + 1000 });
      const { state: after } = await next.ended;
      expect([...next.records.values()]).toMatchObject([
        { outcome: 'givenUp', rejected: true, runId: null, receivedAt: end, detail: expect.stringContaining('i0') },
      ]);
      expect(after).toMatchObject({ undecided: [], gap: { givenUp: 1, count: 0, refused: 0 } });
    }
  });

  it('is so although the log cannot be asked', async () => {
    const { look, state } = await begin();
    const ask = () => Promise.reject(new LogError('refused', 'answered 401'));
    const { ended, records } = await look({ items: [], state, now: end, ask });
    expect((await ended).state).toMatchObject({ undecided: [], failure: { kind: 'refused' }, gap: { givenUp: 1 } });
    expect(records.size).toBe(1);
  });

  it('is so after a day without it in the log, and not after one list without it', async () => {
    const { look, state } = await begin();
    const missed = await (await look({ items: [], state, now: NOW + HOUR_MS })).ended;
    expect(missed.state.undecided).toMatchObject([{ missingSince: NOW + HOUR_MS }]);
    const there = await (await look({ items: withDetails(1), state: missed.state, now: NOW + 3 * HOUR_MS, ask: bad }))
      .ended;
    expect(there.state.undecided).toMatchObject([{ missingSince: null }]);
    const gone = await look({ items: [], state: missed.state, now: NOW + 26 * HOUR_MS });
    expect((await gone.ended).state.undecided).toEqual([]);
    expect([...gone.records.values()]).toMatchObject([{ detail: expect.stringContaining('the log does not list it') }]);
  });

  it('is none that arrived after all', async () => {
    const look = looking();
    const items = [item('i0', NOW - HOUR_MS, { detail: detailOf('i0'), headers: { 'x-id': 'e0' } })];
    const { state } = await (await look({ items, ask: bad })).ended;
    const { ended, records } = await look({ items: [], state, now: end, acceptedIds: ['e0'] });
    expect((await ended).state.undecided).toEqual([]);
    expect(records.size).toBe(0);
  });

  it('is so where its trigger names another log', async () => {
    const { look, state } = await begin();
    const other = stateOf(JSON.parse(JSON.stringify(state)), { log: 'b', since: NOW, now: NOW + HOUR_MS });
    const { ended, records } = await look({ items: [], state: other, now: NOW + HOUR_MS });
    expect((await ended).state.undecided).toEqual([]);
    expect([...records.values()]).toMatchObject([{ detail: expect.stringContaining('another log') }]);
  });
});

describe('a page that is bad again and again', () => {
  it('keeps no other page from being fetched', async () => {
    const look = looking();
    let asked = 0;
    const ask = async () => {
      asked += 1;
      if (asked % 2 === 0) throw new LogError('not_understood', 'answered with what is not JSON');
      return EMPTY;
    };
    const first = await look({ items: many(3), accept, ask, isEndless: true });
    const { state } = await first.ended;
    expect(first.fetched).toEqual([]);
    const second = await look({ items: many(3), accept, ask, isEndless: true, state });
    expect((await second.ended).state).toMatchObject({ failure: { kind: 'not_understood' }, settledTo: null });
    expect(second.fetched).toHaveLength(3);
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
