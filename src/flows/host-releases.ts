import type { Clock } from '../model/clock.ts';
import type { Store } from '../store/store.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { mayProbe } from './circuit.ts';
import type { Asking } from './host-turns.ts';
import type { Host, KnownHosts } from './known-hosts.ts';

/** What a look at the waiting steps needs to know. */
export interface Scene {
  readonly hosts: KnownHosts;
  readonly clock: Clock;
  /** The request of a step that has waited and has no limits of its own. */
  readonly asking: (host: Host) => Asking;
}

/** Steps that one look makes due: what a process can run in a second, so that none has to wait for a slot for long. */
const MOST_RELEASED = 2000;
export const MOST_COUNTED = 10_000;

interface Counting {
  readonly store: Pick<Store, 'listHostWaits'>;
  readonly metrics: Pick<Metrics, 'outgoingWaitingSteps'>;
}

/** Counts the steps that wait: some were cancelled, and some wait since before a restart. */
export async function recountWaits({ store, metrics }: Counting, { hosts, clock, asking }: Scene): Promise<void> {
  const waits = await store.listHostWaits({ now: clock.now(), most: MOST_COUNTED });
  const steps = new Map(waits.map((wait) => [wait.origin, wait.steps]));
  for (const origin of steps.keys()) hosts.at(origin);
  const byLabel = new Map<string, number>();
  for (const host of hosts.all()) {
    host.waiting = steps.get(host.origin) ?? 0;
    host.turns.recount(asking(host), host.waiting, host.waiting >= MOST_COUNTED);
    byLabel.set(host.label, (byLabel.get(host.label) ?? 0) + host.waiting);
    if (host.waiting === 0) host.credit = host.released = 0;
  }
  for (const [host, count] of byLabel) metrics.outgoingWaitingSteps.set({ host }, count);
}

/**
 * Makes steps due that wait for a host, spread over the next second: as many as the host may get, minus those that
 * already have a turn. For an open circuit, it is the one step that probes it. Yields their number.
 */
export async function releaseWaits(
  host: Host,
  store: Pick<Store, 'releaseHostWaits'>,
  { hosts, clock, asking }: Scene,
): Promise<number> {
  const { origin, circuit } = host;
  const now = clock.now();
  if (circuit.phase === 'open') {
    // The step whose probe failed, if it is to probe again, is the one that is due next.
    return mayProbe(circuit, now, true) ? store.releaseHostWaits({ origin, now, limit: 1, everyMs: 0 }) : 0;
  }
  const capacity = host.turns.capacity(asking(host), MOST_RELEASED);
  const cameByThemselves = Math.max(0, hosts.recentRequests(host, 1) - host.released);
  host.credit = Math.max(0, Math.min(Math.max(1, capacity), host.credit + capacity - cameByThemselves));
  const limit = Math.floor(host.credit);
  host.credit -= limit;
  host.released = limit < 1 ? 0 : await store.releaseHostWaits({ origin, now, limit, everyMs: 1000 / capacity });
  return host.released;
}
