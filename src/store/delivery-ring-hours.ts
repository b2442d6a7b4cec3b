import type { DeliveryRecord } from '../model/delivery.ts';
import type { BucketRange, DeliveryBucket, DeliveryCount, FigureStore } from './store.ts';

const HOUR_MS = 3_600_000;
/** Figures look back 720 hours. */
const COUNTED_HOURS = 31 * 24;

type HourCount = Omit<DeliveryCount, 'recent'>;

/** Deliveries by the hour, in memory; they outlive the records that the ring lets go of. */
export function countedByHour() {
  const hours = new Map<number, Map<string, HourCount>>();
  const hourOf = (at: number) => Math.floor(at / HOUR_MS);
  const from = (since: number) => [...hours].filter(([hour]) => hour >= hourOf(since));

  const countDeliveries: FigureStore['countDeliveries'] = async ({ since, recentSince }) => {
    const counts = new Map<string, DeliveryCount>();
    for (const [hour, groups] of from(since)) {
      for (const [key, group] of groups) {
        const known = counts.get(key) ?? { ...group, count: 0, recent: 0, usedPreviousKey: 0 };
        counts.set(key, {
          ...known,
          count: known.count + group.count,
          recent: known.recent + (hour >= hourOf(recentSince) ? group.count : 0),
          usedPreviousKey: known.usedPreviousKey + group.usedPreviousKey,
        });
      }
    }
    return [...counts.values()];
  };

  const deliveryTimeseries = async ({ since, until, bucketMs, flowId }: BucketRange): Promise<DeliveryBucket[]> => {
    const buckets = new Map<number, DeliveryBucket>();
    for (const [hour, groups] of from(since)) {
      const at = Math.floor((hour * HOUR_MS) / bucketMs) * bucketMs;
      if (at >= until) continue;
      for (const group of groups.values()) {
        if (flowId !== undefined && group.flowId !== flowId) continue;
        const { accepted, rejected } = buckets.get(at) ?? { accepted: 0, rejected: 0 };
        const sums = group.rejected
          ? { accepted, rejected: rejected + group.count }
          : { accepted: accepted + group.count, rejected };
        buckets.set(at, { at, ...sums });
      }
    }
    return [...buckets.values()].sort((a, b) => a.at - b.at);
  };

  return {
    add({ receivedAt, flowId, triggerKey, reason, rejected, usedPreviousKey }: DeliveryRecord): void {
      const hour = hourOf(receivedAt);
      const groups = hours.get(hour) ?? new Map<string, HourCount>();
      const about = { flowId, triggerKey, reason, rejected };
      const key = JSON.stringify(about);
      const known = groups.get(key) ?? { ...about, count: 0, usedPreviousKey: 0 };
      const previous = known.usedPreviousKey + Number(usedPreviousKey);
      hours.set(hour, groups.set(key, { ...known, count: known.count + 1, usedPreviousKey: previous }));
      for (const old of hours.keys()) {
        if (old >= hour - COUNTED_HOURS) break;
        hours.delete(old);
      }
    },
    countDeliveries,
    deliveryTimeseries,
  };
}
