import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { valuesOfObjects } from '../../manifest/trigger-objects.ts';
import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { Json } from '../../model/json.ts';
import { type TriggerName, triggerMapKey } from '../../model/trigger-name.ts';
import type { Store } from '../../store/store.ts';
import { admissionTo } from '../../webhooks/acceptance.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import { originOf } from '../http-request/host-limits.ts';
import { findTrigger } from './accept-fetched.ts';
import type { Reconcile } from './log-schema.ts';
import { everyMs, LeaseLostError, type Round, type RoundServices, runRound } from './round.ts';
import type { Source } from './source.ts';
import { sourceOf } from './sources/index.ts';
import { type ReconcileState, stateOf } from './state.ts';
import { reconcileStore } from './store.ts';
import { isSoon } from './undecided.ts';

/** Asks publishers what they sent, and accepts deliveries that never arrived. */
export interface Reconciler {
  /** Looks at every log now, and then as often as each trigger says. */
  start(): void;
  /** Takes the triggers of a deploy into account at once. */
  sync(): void;
  /** Resolves when no look is running. */
  stop(): Promise<void>;
}

export interface ReconcilerServices extends RoundServices {
  readonly store: RoundServices['store'] & Pick<Store, 'of' | 'replica'>;
  readonly logger: Logger;
}

/** Longer than one request of a look takes. */
const LEASE_MS = MINUTE_MS;
/** Notices unannounced changes, such as a clock that was set, after this time at the latest. */
const LONGEST_SLEEP_MS = MINUTE_MS;
/** Another process is asking, or was: it may stop at any moment. */
const LOOK_AGAIN_MS = 15_000;
/** A process that restarts again and again does not ask each time. */
const RESTARTED_MS = 10_000;
const RETRY_MS = 5000;
/** Logs asked at once, in total and at one host: a slow host leaves places to others. */
const [MOST_AT_ONCE, MOST_OF_HOST] = [8, 2];
const MOST_SETTLED = 20_000;

/** What this process knows about the log of one trigger. */
interface Job {
  readonly name: TriggerName;
  readonly log: string;
  /** The origin that requests go to. */
  readonly host: string;
  /** By the wall clock. */
  dueAt: number;
  isStarting: boolean;
  /** When this process first saw the trigger with this log. */
  readonly since: number;
  readonly settled: LRUCache<string, true>;
  readonly troubled: LRUCache<string, true>;
  readonly refused: LRUCache<string, number>;
}

export function createReconciler(services: ReconcilerServices): Reconciler {
  return new LogReconciler(services);
}

class LogReconciler implements Reconciler {
  readonly #services: ReconcilerServices;
  readonly #jobs = new Map<string, Job>();
  /** By trigger: after a deploy, a look at the former log must end before the next log is looked at. */
  readonly #looks = new Map<string, { readonly host: string; readonly ended: Promise<void> }>();
  /** Kept for each trigger, because a source may have signed in. */
  readonly #sources = new WeakMap<PreparedTrigger, Source>();
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #isActive = false;

  constructor(services: ReconcilerServices) {
    this.#services = services;
  }

  start(): void {
    this.#isActive = true;
    this.sync();
  }

  sync(): void {
    if (!this.#isActive) return;
    const { clock, triggers } = this.#services;
    const now = clock.now();
    const present = new Set<string>();
    for (const prepared of triggers().list()) {
      const { reconcile, flowId, triggerKey } = prepared.trigger;
      if (reconcile === undefined) continue;
      const key = triggerMapKey(prepared.trigger);
      present.add(key);
      const log = logOf(prepared);
      const known = this.#jobs.get(key);
      if (known?.log === log) {
        // If the clock was set back, do not wait until it has caught up.
        known.dueAt = Math.min(known.dueAt, now + Math.max(everyMs(prepared), HOUR_MS));
        continue;
      }
      const [settled, troubled] = [rememberedIds(), rememberedIds()];
      const refused = new LRUCache<string, number>({ max: MOST_SETTLED });
      const name = { flowId, triggerKey };
      const host = hostOf(this.#sourceOf(prepared, reconcile), now);
      this.#jobs.set(key, { name, log, host, dueAt: now, since: now, isStarting: true, settled, troubled, refused });
    }
    for (const key of this.#jobs.keys()) if (!present.has(key)) this.#jobs.delete(key);
    this.#runDue();
  }

  async stop(): Promise<void> {
    this.#isActive = false;
    clearTimeout(this.#timer);
    this.#stopping.abort();
    await Promise.all([...this.#looks.values()].map(({ ended }) => ended));
  }

  #runDue(): void {
    if (!this.#isActive) return;
    const now = this.#services.clock.now();
    const jobs = [...this.#jobs].sort(([, one], [, other]) => one.dueAt - other.dueAt);
    let free = MOST_AT_ONCE - this.#looks.size;
    for (const [key, job] of jobs) {
      if (free <= 0 || job.dueAt > now) break;
      if (this.#looks.has(key) || this.#isFull(job.host)) continue;
      free -= 1;
      const ended = this.#look(job).finally(() => {
        this.#looks.delete(key);
        this.#runDue();
      });
      this.#looks.set(key, { host: job.host, ended });
    }
    // Jobs that wait for a free place start when a look ends.
    const waiting = jobs
      .filter(([key, { host }]) => !this.#looks.has(key) && !this.#isFull(host))
      .map(([, { dueAt }]) => dueAt);
    const delayMs = free <= 0 || waiting.length === 0 ? LONGEST_SLEEP_MS : Math.min(...waiting) - now;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.sync(), Math.min(Math.max(0, delayMs), LONGEST_SLEEP_MS)).unref();
  }

  #isFull(host: string): boolean {
    return [...this.#looks.values()].filter((look) => look.host === host).length >= MOST_OF_HOST;
  }

  /** Never rejects. */
  async #look(job: Job): Promise<void> {
    const { clock, logger } = this.#services;
    const now = clock.now();
    try {
      job.dueAt = now + (await this.#lookOnce(job, now));
    } catch (error) {
      job.dueAt = clock.now() + RETRY_MS;
      if (this.#stopping.signal.aborted || error instanceof LeaseLostError) return;
      logger.error({ err: error, ...job.name }, 'a trigger could not be reconciled; trying again');
    }
  }

  /** Yields the time until the next look, in milliseconds. */
  async #lookOnce(job: Job, now: number): Promise<number> {
    const { store, clock, triggers } = this.#services;
    const prepared = findTrigger(job.name, triggers());
    if (prepared?.trigger.reconcile === undefined) return LONGEST_SLEEP_MS;
    if (!clock.isFit()) return RETRY_MS;
    const every = everyMs(prepared);
    const lease = { ...job.name, owner: store.replica };
    const sinceMs = job.isStarting ? Math.min(every, RESTARTED_MS) : every;
    const taken = await store
      .of(reconcileStore)
      .takeReconciliation({ ...lease, until: now + LEASE_MS, now, lastBefore: now - sinceMs });
    if (taken === undefined) return Math.min(every, LOOK_AGAIN_MS);
    job.isStarting = false;
    let state = stateOf(taken.state, { log: job.log, since: job.since, now });
    const end = (lastAt: number) =>
      store.of(reconcileStore).endReconciliation({ ...lease, lastAt, state: state as unknown as Json });
    const pauseMs = (state.notBefore ?? 0) - now;
    if ((pauseMs > 0 && pauseMs <= HOUR_MS) || admissionTo(prepared, this.#services) === 'disabled') {
      await end(now);
      return Math.max(every, Math.min(pauseMs, HOUR_MS));
    }
    const before = state;
    const note = (noted: ReconcileState) => {
      state = noted;
      const until = clock.now() + LEASE_MS;
      return store.of(reconcileStore).renewReconciliation({ ...lease, until, state: noted as unknown as Json });
    };
    try {
      // Store when this log first concerned the trigger before the first request: a crash must not move that time.
      if (!isDeepStrictEqual(taken.state, state) && !(await note(state))) throw new LeaseLostError();
      const ended = await runRound(this.#roundOf(job, { prepared, state, note }), this.#services);
      this.#tell(job, before, ended.state);
      state = ended.state;
      // Any process may fetch the rest at once; an unavailable log may be back soon.
      const isAway = state.failure?.kind === 'unavailable';
      const nextMs = ended.isDone ? (isAway || isSoon(state) ? Math.min(every, MINUTE_MS) : every) : 0;
      await end(now - every + nextMs);
      return nextMs;
    } catch (error) {
      if (!(error instanceof LeaseLostError)) await end(now - every).catch(() => {});
      throw error;
    }
  }

  #roundOf(job: Job, { prepared, state, note }: Pick<Round, 'prepared' | 'state' | 'note'>): Round {
    const { reconcile } = prepared.trigger;
    if (reconcile === undefined) throw new Error('A trigger without a log is to be reconciled.');
    const { name, settled, troubled, refused } = job;
    return {
      name,
      prepared,
      source: this.#sourceOf(prepared, reconcile),
      secrets: valuesOfObjects({ reconcile }),
      state,
      settled: idsIn(settled),
      troubled: idsIn(troubled),
      refused,
      isCurrent: () => {
        const current = findTrigger(name, this.#services.triggers());
        return current === prepared || (current !== undefined && logOf(current) === job.log);
      },
      signal: this.#stopping.signal,
      note,
    };
  }

  #sourceOf(prepared: PreparedTrigger, reconcile: Reconcile): Source {
    const source = this.#sources.get(prepared) ?? sourceOf(reconcile);
    this.#sources.set(prepared, source);
    return source;
  }

  /** Logs each gap and each failure once, and once when a failure ends. */
  #tell({ name }: Job, before: ReconcileState, after: ReconcileState): void {
    const { logger } = this.#services;
    const { failure, gap } = after;
    if (gap !== null && gap.lastAt !== before.gap?.lastAt)
      logger.warn({ ...name, ...gap }, 'deliveries that were lost were fetched');
    if (gap !== null && gap.givenUp > (before.gap?.foundAt === gap.foundAt ? before.gap.givenUp : 0))
      logger.warn({ ...name, givenUp: gap.givenUp }, 'deliveries that the log of a publisher had were given up');
    if (failure !== null && failure.kind !== before.failure?.kind) {
      logger.warn({ ...name, failure: failure.kind, why: failure.message }, 'the log of a publisher cannot be asked');
    }
    if (failure === null && before.failure !== null) logger.info(name, 'the log of a publisher can be asked again');
  }
}

function hostOf(source: Source, now: number): string {
  try {
    return originOf(new URL(source.list({ since: now, until: now }).url));
  } catch {
    // The look itself will report why.
    return '';
  }
}

const rememberedIds = () => new LRUCache<string, true>({ max: MOST_SETTLED });
const idsIn = (ids: LRUCache<string, true>) => ({
  has: (id: string) => ids.has(id),
  add: (id: string) => ids.set(id, true),
});

/** Identifies the log and how its events are identified: if either changes, nothing is known of the time before. */
function logOf({ trigger: { reconcile }, eventIdentity }: PreparedTrigger): string {
  if (reconcile === undefined) return '';
  const { every, lookback, acceptUnsigned, ...log } = reconcile;
  const secrets = new Set(valuesOfObjects({ reconcile }));
  const text = JSON.stringify([log, eventIdentity?.expression], (_, value: unknown) =>
    typeof value === 'string' && secrets.has(value) ? '' : value,
  );
  return hash('sha256', text);
}
