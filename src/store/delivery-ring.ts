import type { DeliveryRecord, Reason } from '../model/delivery.ts';
import type { DeliveryGroup, DeliveryLogStore } from './delivery-log.ts';
import { countedByHour } from './delivery-ring-hours.ts';
import type { Acceptance, AcceptResult, DeliveryQuery, DeliveryStats, HoldResult, Page, Store } from './store.ts';

const LISTED_BODY_BYTES = 65_536;
const MINUTE_MS = 60_000;
/** Stats look back 720 hours. */
const COUNTED_MINUTES = 31 * 24 * 60;

/**
 * A store whose delivery records live in this process' memory: the newest `size` of them, and
 * `maxBytes` of their bodies, until it ends. All else is the
 * store's, acceptance one transaction as ever, so that a crash loses records of deliveries and no run.
 */
export function withDeliveryRing(store: Store, { size, maxBytes }: { size: number; maxBytes: number }): Store {
  const records: DeliveryRecord[] = [];
  const counts = countedByMinute();
  const hours = countedByHour();
  let bytes = 0;
  const keep = (record: DeliveryRecord) => {
    records.push(record);
    counts.add(record);
    hours.add(record);
    bytes += record.body?.byteLength ?? 0;
    while (records.length > size || bytes > maxBytes) bytes -= records.shift()?.body?.byteLength ?? 0;
  };
  const newestFirst = () => records.toSorted((a, b) => (a.id < b.id ? 1 : -1));
  /** Redeliveries under way: what the database makes sure of elsewhere. */
  const redelivering = new Map<string, ReturnType<Store['accept']>>();
  const find = (id: string) => records.find((record) => record.id === id);

  const keepTaken = (acceptance: Acceptance, result: Taken) => {
    const record = takenRecord(acceptance, result);
    if (record !== undefined) keep(record);
  };
  const accept: Store['accept'] = async (acceptance) => {
    const result = await store.accept({ ...acceptance, delivery: undefined });
    if (result.kind !== 'replayed') keepTaken(acceptance, result);
    return result;
  };

  return {
    ...store,
    async accept(acceptance) {
      const from = acceptance.delivery?.redeliveredFrom;
      if (from === undefined) return accept(acceptance);
      const before = redelivering.get(from);
      if (before !== undefined) return asDuplicate(await before);
      const known = records.find((record) => record.redeliveredFrom === from)?.runId;
      if (known !== undefined && known !== null) return { kind: 'duplicate', runId: known, isReplay: false };
      const underWay = accept(acceptance);
      redelivering.set(from, underWay);
      return underWay.finally(() => redelivering.delete(from));
    },
    async holdDelivery(acceptance) {
      const result = await store.holdDelivery({ ...acceptance, delivery: undefined });
      if (result.kind !== 'replayed' && result.kind !== 'open') keepTaken(acceptance, result);
      return result;
    },
    async recordDelivery(record) {
      keep(record);
    },
    async listDeliveries(query) {
      return page(newestFirst().filter(matching(query)), query);
    },
    async findDelivery(id) {
      const record = find(id);
      if (record === undefined || record.body !== null || record.runId === null) return record;
      const run = await store.findRun(record.runId);
      return run?.deliveryId === id ? { ...record, body: run.trigger.body } : record;
    },
    deliveryStats: async (since) => counts.since(since, records),
    countDeliveries: hours.countDeliveries,
    deliveryTimeseries: hours.deliveryTimeseries,
    ...lookingBack(records),
  };
}

type Taken = Exclude<HoldResult | AcceptResult, { kind: 'replayed' | 'open' }>;

/** The record of what the store below has taken without it. */
function takenRecord({ delivery, run }: Acceptance, result: Taken): DeliveryRecord | undefined {
  if (delivery === undefined) return undefined;
  // The body of a held delivery is below, where this cannot read it.
  const body = result.kind === 'accepted' ? null : run.trigger.body;
  const kept: DeliveryRecord = { ...delivery, runId: result.runId, body };
  if (!result.isReplay) return kept;
  const { violations, reason } = delivery;
  return { ...kept, rejected: true, reason: reason ?? 'nonce_replayed', violations: [...violations, 'nonce_replayed'] };
}

/** Whoever asks while another redelivers gets the other's run. */
function asDuplicate(result: Awaited<ReturnType<Store['accept']>>): Awaited<ReturnType<Store['accept']>> {
  return result.kind === 'accepted' ? { kind: 'duplicate', runId: result.runId, isReplay: false } : result;
}

function page(matches: DeliveryRecord[], { skip, take, includeTotal }: DeliveryQuery): Page<DeliveryRecord> {
  const items = matches.slice(skip, skip + take).map(({ body, ...record }) => ({
    ...record,
    body: body === null ? null : body.subarray(0, LISTED_BODY_BYTES),
  }));
  return { items, total: includeTotal === true ? matches.length : undefined };
}

function matching(query: DeliveryQuery): (record: DeliveryRecord) => boolean {
  const search = query.search?.toLowerCase() ?? '';
  return (record) =>
    (query.flowId === undefined || record.flowId === query.flowId) &&
    (query.reason === undefined || record.reason === query.reason) &&
    (query.rejectedOnly !== true || record.rejected) &&
    (query.acceptedOnly !== true || !record.rejected) &&
    (query.refusedOnly !== true || (record.runId === null && record.statusCode >= 400)) &&
    (query.since === undefined || record.receivedAt >= query.since) &&
    (query.until === undefined || record.receivedAt < query.until) &&
    (search === '' || searchable(record).some((text) => text?.toLowerCase().includes(search) === true));
}

function searchable(record: DeliveryRecord): (string | null)[] {
  return [record.id, record.clientIp, record.scheme, record.reason, record.detail, record.runId];
}

function lookingBack(records: readonly DeliveryRecord[]): DeliveryLogStore {
  return {
    async findRedelivery(deliveryId) {
      const found = records.find(({ redeliveredFrom }) => redeliveredFrom === deliveryId);
      return found === undefined || found.runId === null ? undefined : { deliveryId: found.id, runId: found.runId };
    },
    async findAcceptedNonce({ flowId, triggerKey, nonce, since }) {
      const found = records.find(
        (record) =>
          record.flowId === flowId &&
          record.triggerKey === triggerKey &&
          record.receivedAt >= since &&
          record.runId !== null &&
          record.story?.some(({ facts }) => facts.nonce === nonce) === true,
      );
      return found?.runId ?? undefined;
    },
    async summariseDeliveries({ since, flowId }) {
      const groups = new Map<string, DeliveryGroup>();
      for (const record of records) {
        if (record.receivedAt < since || record.redeliveredFrom !== undefined) continue;
        if (record.flowId === null || (flowId !== undefined && record.flowId !== flowId)) continue;
        const group = { flowId: record.flowId, triggerKey: record.triggerKey ?? '', mode: record.mode };
        const key = JSON.stringify([group, record.violations]);
        const known = groups.get(key);
        groups.set(key, {
          ...{ ...group, violations: record.violations, count: (known?.count ?? 0) + 1, lastId: record.id },
          ...{ firstAt: known?.firstAt ?? record.receivedAt, firstId: known?.firstId ?? record.id },
        });
      }
      return [...groups.values()];
    },
    // The ring bounds itself and owns no file.
    purgeDeliveries: async () => 0,
    trimRefused: async () => 0,
    releaseSpace: async () => 0,
  };
}

/** Counts outlive the records that the ring lets go of. */
function countedByMinute() {
  const minutes = new Map<number, Map<Reason | '', { accepted: number; rejected: number }>>();
  const minuteOf = (at: number) => Math.floor(at / MINUTE_MS);
  return {
    add({ receivedAt, reason, rejected }: DeliveryRecord): void {
      const minute = minuteOf(receivedAt);
      const counts = minutes.get(minute) ?? new Map();
      const count = counts.get(reason ?? '') ?? { accepted: 0, rejected: 0 };
      count[rejected ? 'rejected' : 'accepted'] += 1;
      minutes.set(minute, counts.set(reason ?? '', count));
      for (const old of minutes.keys()) {
        if (old >= minute - COUNTED_MINUTES) break;
        minutes.delete(old);
      }
    },
    since(since: number, records: readonly DeliveryRecord[]): DeliveryStats {
      const firstWhole = Math.ceil(since / MINUTE_MS);
      const counts: Partial<Record<Reason, number>> = {};
      const sums = { accepted: 0, rejected: 0 };
      const add = (reason: Reason | '', accepted: number, rejected: number) => {
        if (reason !== '') counts[reason] = (counts[reason] ?? 0) + accepted + rejected;
        sums.accepted += accepted;
        sums.rejected += rejected;
      };
      for (const [minute, byReason] of minutes) {
        if (minute < firstWhole) continue;
        for (const [reason, { accepted, rejected }] of byReason) add(reason, accepted, rejected);
      }
      for (const { receivedAt, reason, rejected } of records) {
        if (receivedAt < since || receivedAt >= firstWhole * MINUTE_MS) continue;
        add(reason ?? '', rejected ? 0 : 1, rejected ? 1 : 0);
      }
      return { counts, ...sums, total: sums.accepted + sums.rejected };
    },
  };
}
