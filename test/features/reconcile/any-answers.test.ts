import { expect, it } from 'vitest';
import { LogError } from '../../../src/features/reconcile/ask-log.ts';
import { LeaseLostError, type Round, type RoundServices, runRound } from '../../../src/features/reconcile/round.ts';
import {
  type Source,
  type SourceAnswer,
  SourceError,
  type SourceItem,
} from '../../../src/features/reconcile/source.ts';
import { type ReconcileState, stateOf } from '../../../src/features/reconcile/state.ts';
import type { DeliveryRecord } from '../../../src/model/delivery.ts';
import type { DeliveryNames } from '../../../src/store/store.ts';
import type { PreparedTrigger } from '../../../src/webhooks/triggers.ts';
import { chanceOf } from '../../chance.ts';

const [MINUTE_MS, HOUR_MS] = [60_000, 3_600_000];
const DAY_MS = 24 * HOUR_MS;
const BEGIN = Date.parse('2026-11-20T12:00:00Z');
const ERRORS = [
  () => new LogError('not_found', 'answered 404'),
  () => new LogError('not_understood', 'answered with what is not JSON'),
  () => new LogError('unavailable', 'answered 500'),
  () => new LogError('refused', 'answered 403'),
  () => new LogError('rate_limited', 'answered 429', MINUTE_MS),
  () => new SourceError('has no payload'),
];

/** One trigger, its log and its database for eight days; replicas die and lose their leases at any call. */
async function eightDays(seed: number) {
  const { next: random, below } = chanceOf(`eight days ${seed}`);
  const chance = (probability: number) => random() < probability;
  const errorOf = () => (ERRORS[below(ERRORS.length)] ?? ERRORS[0])?.() ?? new Error('none');
  const isCalm = () => now > BEGIN + 6 * DAY_MS;
  let now = BEGIN;
  const sent: { item: SourceItem; bad: number; goneAt: number }[] = [];
  const [accepted, records, doubled] = [new Map<string, number>(), new Map<string, DeliveryRecord>(), [] as string[]];
  let [state, owner, ids] = [stateOf(null, { log: 'a', since: now, now }), 0, 0];
  const die = () => {
    if (!isCalm() && chance(0.01)) throw new Error('killed');
  };
  /** Lets another replica act in between. */
  const turn = async () => {
    for (let turns = below(4); turns > 0; turns -= 1) await Promise.resolve();
    die();
  };
  const idOf = (url: string) => /item\/(\w+)$/.exec(url)?.[1];
  const source: Source = {
    graceMs: 0,
    list: ({ since, until }) => ({ method: 'GET', url: `https://a.example/list/${since}/${until}/0`, headers: {} }),
    read: ({ json }) => json as unknown as ReturnType<Source['read']>,
    sent: ({ id, headers }) => ({ headers: { ...headers, 'x-id': id }, bodies: [Buffer.from('{}')] }),
  };
  const answer = (url: string): SourceAnswer => {
    const id = idOf(url);
    if (id === undefined) {
      if (!isCalm() && chance(0.05)) throw errorOf();
      const [since = 0, until = 0, page = 0] = url.split('/').slice(-3).map(Number);
      const listed = sent.filter(({ item, goneAt }) => goneAt > now && item.sentAt >= since && item.sentAt <= until);
      const items = listed.slice(page * 20, page * 20 + 20).map(({ item }) => item);
      const next = { method: 'GET', url: url.replace(/\d+$/, String(page + 1)), headers: {} };
      const read = { items, ...(listed.length > page * 20 + 20 && { next }) };
      return { status: 200, headers: {}, text: '', json: read as never };
    }
    const found = sent.find(({ item }) => item.id === id);
    if (found === undefined || found.bad > 0) {
      if (found !== undefined) found.bad -= 1;
      throw errorOf();
    }
    return { status: 200, headers: {}, text: '', json: null };
  };
  const services = {
    ask: async (request: { url: string }, _: unknown, use: (given: SourceAnswer) => unknown) => {
      await turn();
      return use(answer(request.url));
    },
    accept: async (_: unknown, { headers }: { headers: Record<string, string> }) => {
      const id = headers['x-id'] ?? '';
      await turn();
      const isKnown = accepted.has(id);
      if (!isKnown) accepted.set(id, now);
      await turn();
      return isKnown ? { kind: 'settled' } : { kind: 'accepted', runId: 'r' };
    },
    clock: { now: () => now, monotonic: () => 0, ledger: () => now },
    newId: () => `record ${ids++}`,
    store: {
      areAccepted: async ({ names }: { names: readonly DeliveryNames[] }) => {
        await turn();
        return names.map(({ eventId }) => accepted.has(eventId ?? ''));
      },
      findDelivery: async (id: string) => {
        await turn();
        return records.get(id);
      },
      recordDelivery: async (record: DeliveryRecord) => {
        await turn();
        if (records.has(record.id)) throw new Error('a second record of one id');
        records.set(record.id, record);
        await turn();
      },
    },
    triggers: () => ({ list: () => [] }),
    pause: turn,
  } as unknown as RoundServices;
  const reconcile = { from: 'github', lookback: 'P1D', every: 'PT15M' };
  const prepared = {
    trigger: { inputs: {}, reconcile, flowId: 'f', triggerKey: 't' },
    eventIdentity: { expression: "headers['x-id']", days: 30 },
    judgeByExpressions: (headers: Record<string, string>) => ({ eventId: headers['x-id'] }),
    chain: [],
    gates: [],
    flow: { record: { revision: 1 } },
  } as unknown as PreparedTrigger;
  const ofProcess = () => ({ settled: new Set<string>(), troubled: new Set<string>(), refused: new Map() });
  let memory = ofProcess();
  const look = async (): Promise<void> => {
    owner += 1;
    const own = owner;
    const note = async (noted: ReconcileState) => {
      await turn();
      if (owner === own) state = JSON.parse(JSON.stringify(noted));
      const isOwn = owner === own;
      await turn();
      return isOwn;
    };
    const round: Round = {
      ...{ name: { flowId: 'f', triggerKey: 't' }, prepared, source, secrets: [], state, ...memory, note },
      ...{ signal: new AbortController().signal, isCurrent: () => true },
    };
    try {
      const ended = await runRound(round, services);
      if (owner === own) state = JSON.parse(JSON.stringify(ended.state));
    } catch (error) {
      if (
        !(error instanceof Error) ||
        !/killed|second record/.test(error.message + String(error instanceof LeaseLostError))
      ) {
        if (!(error instanceof LeaseLostError)) throw error;
      }
      memory = ofProcess();
    }
  };
  for (; now < BEGIN + 8 * DAY_MS; now += 30 * MINUTE_MS) {
    if (now > BEGIN && now < BEGIN + 2 * DAY_MS && chance(0.6)) {
      for (let count = Math.ceil(random() * 6); count > 0; count -= 1) {
        const id = `i${sent.length}`;
        const detail = { method: 'GET', url: `https://a.example/item/${id}`, headers: {} } as const;
        const item = { id, sentAt: now - Math.floor(random() * 29 * MINUTE_MS), headers: { 'x-id': id }, detail };
        const bad = chance(0.6) ? 0 : chance(0.85) ? Math.ceil(random() * 5) : Number.POSITIVE_INFINITY;
        sent.push({
          item,
          bad,
          goneAt: chance(0.05) ? now + 3 * HOUR_MS + random() * DAY_MS : Number.POSITIVE_INFINITY,
        });
      }
    }
    if ((state.notBefore ?? 0) > now) continue;
    await Promise.all(chance(0.1) && !isCalm() ? [look(), look()] : [look()]);
  }
  const told = [...records.values()].map(({ detail }) => /sent (\w+) at/.exec(detail ?? '')?.[1] ?? '');
  for (const id of new Set(told)) if (told.filter((each) => each === id).length > 1) doubled.push(id);
  const isKnown = ({ item: { id } }: { item: SourceItem }) => accepted.has(id) || told.includes(id);
  return { sent, accepted, told, doubled, unknown: sent.filter((each) => !isKnown(each)), state };
}

it.each([1, 2, 54, 144])(
  'each lost delivery has a run, or one record that it was given up, whatever is answered and whoever dies (seed %i)',
  async (seed) => {
    const { sent, accepted, told, doubled, unknown, state } = await eightDays(seed);
    expect(doubled).toEqual([]);
    expect(unknown).toEqual([]);
    expect(told.filter((id) => accepted.has(id))).toEqual([]);
    expect(accepted.size + told.length).toBe(sent.length);
    // A delivery whose contents come in the end is not given up while the log has it.
    expect(sent.filter(({ item, bad, goneAt }) => bad < 5 && goneAt > BEGIN * 2 && told.includes(item.id))).toEqual([]);
    expect(state.undecided).toEqual([]);
  },
);
