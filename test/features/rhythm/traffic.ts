import type { ArrivalHour } from '../../../src/features/rhythm/store.ts';

export const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000] as const;

/** A Monday, 00:00 UTC. */
export const MONDAY = Date.UTC(2026, 0, 5);

export type Random = () => number;

const normal = (random: Random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

function poisson(mean: number, random: Random): number {
  if (mean > 50) return Math.max(0, Math.round(mean + Math.sqrt(mean) * normal(random)));
  const floor = Math.exp(-mean);
  let [count, product] = [0, random()];
  while (product > floor) {
    count += 1;
    product *= random();
  }
  return count;
}

/** Average deliveries of an hour, by hour of the day and day of the week from Monday. */
type Shape = (hour: number, weekday: number) => number;

const office: Shape = (hour, weekday) => (weekday < 5 && hour >= 8 && hour < 18 ? 1 : 0);

/** Senders that behave like publishers. */
export const SENDERS = {
  shop: {
    shape: (hour, weekday) =>
      (hour < 6 ? 2 : 40 + 20 * Math.sin(((hour - 6) / 18) * Math.PI)) * (weekday > 4 ? 1.4 : 1),
  },
  office: { shape: (hour, weekday) => 40 * office(hour, weekday) },
  repository: { shape: (hour, weekday) => 6 * office(hour, weekday) + 0.3, bursts: 6 },
  monitor: { everyMs: 5 * MINUTE },
  nightly: { everyMs: DAY, batch: 200 },
  hourly: { everyMs: HOUR, batch: 30 },
  rare: { shape: () => 3 / 24 },
  busy: { shape: (hour) => (hour < 5 ? 30 : 240) },
} as const satisfies Record<string, Sender>;

interface Sender {
  readonly shape?: Shape;
  /** Average number of deliveries that arrive together. */
  readonly bursts?: number;
  readonly everyMs?: number;
  readonly batch?: number;
}

/** Arrival times over so many days from a Monday on, in order; with quiet days, rushes and a change of the clocks. */
export function arrivalsOf({ shape, bursts = 1, everyMs, batch = 1 }: Sender, days: number, random: Random): number[] {
  const times: number[] = [];
  if (everyMs !== undefined) {
    const offset = random() * everyMs;
    for (let at = MONDAY + offset; at < MONDAY + days * DAY; at += everyMs) {
      const late = at + random() * Math.min(everyMs / 4, 20 * MINUTE);
      for (let n = 0; n < batch; n += 1) times.push(late + n * 200);
    }
    return times;
  }
  const changesAt = Math.floor(random() * days);
  for (let day = 0; day < days; day += 1) {
    const isQuiet = random() < 0.04;
    const ofDay = Math.exp(normal(random) * 0.2) * (isQuiet ? 0.3 + random() * 0.2 : 1);
    for (let hour = 0; hour < 24; hour += 1) {
      const isRush = random() < 0.003;
      const ofHour = Math.exp(normal(random) * 0.2) * (isRush ? 2 + random() * 4 : 1);
      const local = (hour + (day >= changesAt ? 1 : 0)) % 24;
      const mean = (shape?.(local, day % 7) ?? 0) * ofDay * ofHour;
      for (let n = poisson(mean / bursts, random); n > 0; n -= 1) {
        const at = MONDAY + day * DAY + (hour + random()) * HOUR;
        const size = bursts === 1 ? 1 : 1 + poisson(bursts - 1, random);
        for (let part = 0; part < size; part += 1) times.push(at + part * 1500);
      }
    }
  }
  return times.sort((one, other) => one - other);
}

/** Counted as in the store. */
export function hoursOf(times: readonly number[]): ArrivalHour[] {
  const hours = new Map<number, ArrivalHour>();
  for (const at of times) {
    const hour = Math.floor(at / HOUR);
    const known = hours.get(hour);
    const longestGapMs = known === undefined ? 0 : Math.max(known.longestGapMs, at - known.lastAt);
    hours.set(hour, {
      event: null,
      hour,
      count: (known?.count ?? 0) + 1,
      firstAt: known?.firstAt ?? at,
      lastAt: at,
      longestGapMs,
    });
  }
  return [...hours.values()];
}
