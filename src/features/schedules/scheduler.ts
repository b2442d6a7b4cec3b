import { setTimeout as wait } from 'node:timers/promises';
import { Cron } from 'croner';
import type { Logger } from 'pino';
import { StoreUnavailableError } from '../../errors.ts';
import { readTrigger } from '../../expressions/order-key.ts';
import { type Catalog, type DeployedFlow, startsRuns } from '../../flows/catalog.ts';
import { type Engine, type RefreshFlow, START_TRIES, type TriggerResult } from '../../flows/engine.ts';
import { orderOf } from '../../flows/prepared-revision.ts';
import type { Report } from '../../flows/report.ts';
import type { CronTrigger } from '../../manifest/schema.ts';
import type { Clock } from '../../model/clock.ts';
import { SCHEDULED_FOR } from '../../model/run.ts';
import { serially } from '../../model/serially.ts';
import type { Members } from '../../store/part.ts';
import type { NewRun, Store } from '../../store/store.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { type ScheduleRecord, schedulesStore } from './store.ts';

/** Starts the runs of cron triggers. */
interface Scheduler {
  /** Handles ticks missed while the service was down, then fires tick by tick. */
  start(): Promise<void>;
  /** Applies a deploy's triggers and expressions at once; without this call, it happens within a minute. */
  sync(): Promise<void>;
  /** Schedules of all deployed triggers. */
  list(): Promise<Schedule[]>;
  /** These yield undefined if no deployed cron trigger has the id. */
  setPaused(jobId: string, isPaused: boolean): Promise<Schedule | undefined>;
  /** The manifest's own expression undoes an earlier change. */
  setCron(jobId: string, cronExpression: string): Promise<Schedule | undefined>;
  trigger(jobId: string): Promise<TriggerResult | undefined>;
  stop(): Promise<void>;
}

export interface Schedule extends ScheduleRecord {
  /** `flow-{flowId}-{triggerKey}`. */
  readonly jobId: string;
  readonly flowName: string;
  /** The flow is draining: nothing fires until that ends; then everything fires again that is not itself paused. */
  readonly isDraining: boolean;
}

interface SchedulerServices {
  readonly store: Pick<Store, 'of'>;
  readonly catalog: Pick<Catalog, 'list'>;
  readonly engine: Pick<Engine, 'planRun' | 'announce' | 'triggerFlow'>;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly logger: Logger;
  readonly report: Pick<Report, 'triggerDisabled'>;
  readonly metrics: Pick<Metrics, 'scheduleLagMs'>;
  readonly refresh: RefreshFlow;
  /** If false, nothing fires here and no tick is corrected: see `Heartbeat`. */
  readonly isFit: () => boolean;
}

/** A cron trigger of a deployed flow. */
interface Job {
  readonly jobId: string;
  readonly flow: DeployedFlow;
  readonly triggerKey: string;
  readonly trigger: CronTrigger;
}

/** Notices unannounced changes, such as a clock that was set, after this time at the latest. */
const LONGEST_SLEEP_MS = 60_000;
/** A tick this late was missed: the machine was asleep, or the store was unavailable. */
const MISSED_AFTER_MS = 30_000;
const RETRY_MS = 1000;
/** Replicas that change schedules in step outrun each other again and again; after a random pause they do not. */
const MOVED_TRIES = 20;
const MOVED_PAUSE_MS = 50;
/** A clock corrected by less than this must not fire a tick a second time. */
const CORRECTION_MS = 60_000;
const NO_BODY = { body: new Uint8Array(0), contentType: null, headers: {} } as const;

export function createScheduler(services: SchedulerServices): Scheduler {
  return new CronScheduler(services);
}

class CronScheduler implements Scheduler {
  readonly #services: SchedulerServices;
  readonly #store: Members<typeof schedulesStore>;
  #timer: NodeJS.Timeout | undefined;
  #isActive = false;
  /** Serial, so that a tick never sees half a change. */
  readonly #queue = serially();

  constructor(services: SchedulerServices) {
    this.#services = services;
    this.#store = services.store.of(schedulesStore);
  }

  async start(): Promise<void> {
    this.#isActive = true;
    await this.#turn(() => this.#round({ lateMs: 0 }));
  }

  async sync(): Promise<void> {
    await this.#turn(() => this.#round({ lateMs: MISSED_AFTER_MS }));
  }

  async list(): Promise<Schedule[]> {
    return this.#turn(async () => {
      const schedules = await this.#current();
      this.#sleepUntil(earliestOf(schedules));
      return schedules;
    });
  }

  setPaused(jobId: string, isPaused: boolean): Promise<Schedule | undefined> {
    return this.#change(jobId, (schedule) => ({ ...schedule, isPaused }));
  }

  setCron(jobId: string, cronExpression: string): Promise<Schedule | undefined> {
    return this.#change(jobId, (schedule, { trigger }) => {
      const cronOverride = cronExpression === trigger.inputs.cronExpression ? null : cronExpression;
      return { ...schedule, cronOverride, cron: cronExpression };
    });
  }

  async trigger(jobId: string): Promise<TriggerResult | undefined> {
    const { engine, clock } = this.#services;
    const job = this.#jobs().find((each) => each.jobId === jobId);
    if (job === undefined) return undefined;
    const { triggerKey, flow } = job;
    const request = { flowId: flow.record.id, triggerKey, triggerType: 'cron', ...NO_BODY } as const;
    const result = await engine.triggerFlow(request);
    if (result.kind === 'started') {
      await this.#turn(async () => {
        const found = (await this.#current()).find((each) => each.jobId === jobId);
        if (found !== undefined) await this.#save(recordOf({ ...found, lastAt: clock.now() }));
      });
    }
    return result;
  }

  async stop(): Promise<void> {
    this.#isActive = false;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#queue.ended();
  }

  #change(
    jobId: string,
    change: (schedule: ScheduleRecord, job: Job) => ScheduleRecord,
  ): Promise<Schedule | undefined> {
    const { clock } = this.#services;
    return this.#turn(async () => {
      const job = this.#jobs().find((each) => each.jobId === jobId);
      const schedules = await this.#current();
      const found = schedules.find((each) => each.jobId === jobId);
      if (job === undefined || found === undefined) return undefined;
      const changed = change(recordOf(found), job);
      // Ticks during a pause were not missed: they were not wanted.
      const isSame = changed.cron === found.cron && changed.isPaused === found.isPaused;
      const saved = await this.#save(isSame ? changed : { ...changed, nextAt: nextTick(changed, clock.now()) });
      this.#sleepUntil(earliestOf([...schedules.filter((each) => each !== found), saved]));
      return { ...found, ...saved };
    });
  }

  /** Runs one at a time, and again if another process changed a schedule that this one was about to change. */
  #turn<Value>(work: () => Promise<Value>): Promise<Value> {
    return this.#queue.run(async () => {
      for (let left = MOVED_TRIES; ; left -= 1) {
        try {
          return await work();
        } catch (error) {
          if (!(error instanceof ScheduleMovedError) || left === 1) throw error;
        }
        await wait(Math.random() * MOVED_PAUSE_MS);
      }
    });
  }

  async #save(schedule: ScheduleRecord): Promise<ScheduleRecord> {
    const saved = await this.#store.changeSchedule(schedule);
    if (saved === undefined) throw new ScheduleMovedError(jobIdOf(schedule));
    return saved;
  }

  /** Every cron trigger with its state, which is created, or adapted to manifest and clock, if necessary. */
  async #current(): Promise<Schedule[]> {
    const { clock, isFit } = this.#services;
    const stored = new Map((await this.#store.listSchedules()).map((each) => [jobIdOf(each), each]));
    const schedules: Schedule[] = [];
    for (const { jobId, flow, triggerKey, trigger } of this.#jobs()) {
      const known = stored.get(jobId);
      stored.delete(jobId);
      const { cronExpression, timeZone = 'UTC' } = trigger.inputs;
      const cron = known?.cronOverride ?? cronExpression;
      let schedule = known;
      if (schedule === undefined || schedule.cron !== cron || schedule.timeZone !== timeZone) {
        const { cronOverride = null, isPaused = false, lastAt = null, revision = 0 } = known ?? {};
        const made = { flowId: flow.record.id, triggerKey, cron, timeZone, cronOverride, isPaused, lastAt, revision };
        schedule = await this.#save({ ...made, nextAt: nextTick(made, clock.now()) });
      }
      const nextAt = isFit() ? this.#corrected(schedule) : schedule.nextAt;
      if (nextAt !== schedule.nextAt) {
        schedule = await this.#save({ ...schedule, nextAt });
      }
      const { name: flowName, drainingSince } = flow.record;
      schedules.push({ ...schedule, jobId, flowName, isDraining: drainingSince !== undefined });
    }
    // Ticks while no manifest has the trigger do not count as missed if one has it again later.
    for (const absent of stored.values()) {
      if (absent.nextAt === null) continue;
      // Another process may have deployed the trigger since; then the next round of this one includes it.
      await this.#services.refresh(absent.flowId);
      if (this.#jobs().some(({ jobId }) => jobId === jobIdOf(absent))) continue;
      await this.#save({ ...absent, nextAt: null });
    }
    return schedules;
  }

  /** The stored tick, or an earlier one: then a fast clock had computed the stored one. */
  #corrected(schedule: ScheduleRecord): number | null {
    const now = this.#services.clock.now();
    const { nextAt, lastAt } = schedule;
    if (nextAt !== null && nextAt <= now) return nextAt;
    const isCorrection = lastAt !== null && lastAt > now && lastAt - now <= CORRECTION_MS;
    const computed = nextTick(schedule, isCorrection ? lastAt : now);
    return nextAt === null || computed === null ? computed : Math.min(nextAt, computed);
  }

  /** Fires due ticks and sleeps until the next one. A tick more than `lateMs` late was missed. */
  async #round({ lateMs }: { lateMs: number }): Promise<void> {
    const { clock, isFit } = this.#services;
    if (!isFit()) {
      this.#sleepUntil(clock.now() + RETRY_MS);
      return;
    }
    let next: number | null = null;
    for (const schedule of await this.#current()) {
      let { nextAt } = schedule;
      if (nextAt !== null && nextAt <= clock.now()) {
        nextAt = await this.#fire({ schedule, dueAt: nextAt, isMissed: clock.now() - nextAt > lateMs });
      }
      if (nextAt !== null) next = Math.min(next ?? nextAt, nextAt);
    }
    this.#sleepUntil(next);
  }

  /** Starts the run of a tick unless it is skipped, and yields the next tick. Of several missed ticks, one fires. */
  async #fire(
    tick: { schedule: Schedule; dueAt: number; isMissed: boolean },
    left = START_TRIES,
  ): Promise<number | null> {
    const { engine, clock, report, metrics, logger } = this.#services;
    const { schedule, dueAt, isMissed } = tick;
    const { flowId, triggerKey, jobId } = schedule;
    // A deploy may have changed or removed the trigger since the round began.
    const find = () => this.#jobs().find((each) => each.jobId === jobId);
    const known = find();
    // Another process may have enabled the flow.
    if (known !== undefined && !startsRuns(known.flow.record)) await this.#services.refresh(flowId);
    const job = find();
    if (job === undefined) return null;
    const at = clock.now();
    const nextAt = nextTick(schedule, at);
    const isSkipped = isMissed && job.trigger.inputs.onMissed === 'skip';
    const { record, loaded } = job.flow;
    const isStarted = !isSkipped && startsRuns(record) && loaded.unreadable === undefined;
    const run = isStarted ? this.#planRun(job, { dueAt, at }) : null;
    const result = await this.#store.fireSchedule({ flowId, triggerKey, dueAt, nextAt, run, at });
    if (result === 'outdated') {
      // The tick stays due.
      await this.#services.refresh(flowId);
      return left > 1 ? this.#fire(tick, left - 1) : at + RETRY_MS;
    }
    if (result === 'passed') return nextAt;
    if (!record.isEnabled) report.triggerDisabled(flowId, triggerKey);
    else if (loaded.unreadable !== undefined)
      logger.error(
        { flowId, triggerKey, dueAt, why: loaded.unreadable },
        'a tick started nothing: the flow cannot be read',
      );
    else if (isSkipped) logger.info({ flowId, triggerKey, dueAt }, 'a missed tick was skipped');
    if (run !== null) {
      metrics.scheduleLagMs.observe(at - dueAt);
      engine.announce(run);
    }
    return nextAt;
  }

  #planRun({ flow, triggerKey }: Job, { dueAt, at }: { readonly dueAt: number; readonly at: number }): NewRun {
    const headers = { [SCHEDULED_FOR]: new Date(dueAt).toISOString() };
    const trigger = { key: triggerKey, ...NO_BODY, headers };
    return this.#services.engine.planRun({
      runId: this.#services.newId(),
      flow,
      triggerType: 'cron',
      trigger,
      order: orderOf(flow.prepared, readTrigger(trigger), true),
      deliveryId: null,
      sourceRunId: null,
      traceparent: null,
      at,
    });
  }

  #sleepUntil(at: number | null): void {
    if (!this.#isActive) return;
    const delayMs = Math.min(
      Math.max(0, (at ?? Number.POSITIVE_INFINITY) - this.#services.clock.now()),
      LONGEST_SLEEP_MS,
    );
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#wake(), delayMs).unref();
  }

  async #wake(): Promise<void> {
    try {
      await this.sync();
    } catch (error) {
      // The tick stays due and fires as soon as the store answers again.
      this.#services.logger.error({ err: error }, 'cron triggers could not be fired; trying again');
      this.#sleepUntil(this.#services.clock.now() + RETRY_MS);
    }
  }

  #jobs(): Job[] {
    return this.#services.catalog
      .list()
      .flatMap((flow) =>
        Object.entries(flow.loaded.manifest.triggers).flatMap(([triggerKey, trigger]) =>
          trigger.type === 'cron' && trigger.enabled !== false
            ? [{ jobId: jobIdOf({ flowId: flow.record.id, triggerKey }), flow, triggerKey, trigger }]
            : [],
        ),
      );
  }
}

/** Another process changed a schedule after it was read. */
class ScheduleMovedError extends StoreUnavailableError {
  constructor(jobId: string) {
    super(`another process keeps changing the schedule ${jobId}`);
    this.name = 'ScheduleMovedError';
  }
}

function jobIdOf({ flowId, triggerKey }: { flowId: string; triggerKey: string }): string {
  return `flow-${flowId}-${triggerKey}`;
}

function earliestOf(schedules: readonly Pick<ScheduleRecord, 'nextAt'>[]): number | null {
  const ticks = schedules.flatMap(({ nextAt }) => (nextAt === null ? [] : [nextAt]));
  return ticks.length === 0 ? null : Math.min(...ticks);
}

/** The first tick after `now`; null while paused, or if there is none. */
function nextTick(
  { cron, timeZone, isPaused }: Pick<ScheduleRecord, 'cron' | 'timeZone' | 'isPaused'>,
  now: number,
): number | null {
  if (isPaused) return null;
  return nextTicks({ cron, timeZone }, now, 1)[0] ?? null;
}

/** The first `count` ticks after an instant; fewer if the expression has no more. */
export function nextTicks(
  { cron, timeZone }: Pick<ScheduleRecord, 'cron' | 'timeZone'>,
  after: number,
  count: number,
): number[] {
  const ticks = new Cron(cron, { timezone: timeZone, paused: true }).nextRuns(count, new Date(after));
  return ticks.map((tick) => tick.getTime());
}

function recordOf({ jobId, flowName, isDraining, ...record }: Schedule): ScheduleRecord {
  return record;
}
