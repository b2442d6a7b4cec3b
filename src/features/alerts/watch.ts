import { createHash, randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Catalog, startsRuns } from '../../flows/catalog.ts';
import type { Engine } from '../../flows/engine.ts';
import type { ManifestRules } from '../../manifest/load.ts';
import type { Clock } from '../../model/clock.ts';
import type { Json } from '../../model/json.ts';
import { ALERT_FLOW_ID } from '../../model/manifest.ts';
import { planRun } from '../../model/planner.ts';
import type { NewRun, Store } from '../../store/store.ts';
import type { LiveEvents } from '../../telemetry/events.ts';
import { loadAlertFlow } from './alert-flow.ts';
import {
  type Alert,
  type AlertState,
  type Cause,
  type Change,
  NO_ALERTS,
  type PlannedMessage,
  planAlerts,
  wants,
} from './alert-plan.ts';
import {
  accessIncidents,
  type Concern,
  concernCause,
  failureIncidents,
  refusedCause,
  refusedIncident,
  type ToldDeploy,
  type Unnamed,
} from './incidents.ts';
import { type AlertMessage, factsOf, lineOf } from './message.ts';
import type { AlertSender } from './send.ts';
import { alertsStore } from './store.ts';
import { type AlertSettings, isProgram } from './targets.ts';

/** Notifies the targets of what happens. */
export interface AlertWatch {
  /** Notes failed runs from now on. Rejects with `StoreUnavailableError`. */
  prepare(): Promise<void>;
  start(): void;
  /** Resolves once the message is stored and will be sent; never rejects. */
  deployTold(deploys: readonly ToldDeploy[]): Promise<void>;
  stop(): Promise<void>;
}

interface WatchServices {
  readonly alerts: AlertSettings;
  readonly send: AlertSender;
  readonly store: Pick<Store, 'of' | 'listRuns' | 'findRun' | 'outlineSteps'>;
  readonly catalog: Pick<Catalog, 'deploy' | 'find' | 'list'>;
  /** Starts the steps of a run that is durable. */
  readonly announce: Engine['announce'];
  readonly rules: ManifestRules;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: () => string;
  /** The service's name. */
  readonly service: string;
  /** URL of the page for people, without a slash at its end; undefined while that is not known. */
  readonly pageUrl: () => string | undefined;
  readonly concerns: () => Promise<readonly Concern[]>;
  /** Why this process should get no requests; undefined if it should. Rejects if the store is unavailable. */
  readonly unready: () => Promise<{ readonly reason: string; readonly message: string } | undefined>;
  /** Names this process among those of the service. */
  readonly replica: string;
  /** Its events make the watch look soon after a run fails in this process. */
  readonly live?: Pick<LiveEvents, 'subscribe'> | undefined;
  /** Milliseconds between two looks. */
  readonly lookEveryMs?: number;
}

const LOOK_EVERY_MS = 5000;
/** Failures that happen within this time are reported together. */
const LOOK_SOON_MS = 250;
/** Failed runs for one look; the next look takes the others at once. */
const RUNS_A_LOOK = 1000;
/** Failures that one look checks for their end, and later runs that it reads for each. */
const FAILURES_A_LOOK = 20;
const LATER_RUNS = 10;
/** More than the messages to programs that can be under way at once. */
const RUNS_IN_FLIGHT = 500;
/** Processes to remember: forgets those that did not end in order and whose name did not come back, oldest first. */
const MOST_PROCESSES = 100;
/** A shorter outage is not reported. */
const UNREADY_AFTER_MS = 15_000;
/** A process that becomes unready repeatedly is reported once in this time. */
const UNREADY_AGAIN_MS = 600_000;
/** Attempts to commit: another replica that looks too may change the state between a plan and its commit. */
const TRIES = 5;

export function createAlertWatch(services: WatchServices): AlertWatch {
  const watch = new Watch(services);
  return {
    prepare: () => watch.prepare(),
    start: () => watch.start(),
    deployTold: (deploys) => watch.deployTold(deploys),
    stop: () => watch.stop(),
  };
}

/** Used when no targets are configured: discards what was stored for alerts. */
export function noAlerts(store: Pick<Store, 'of'>): AlertWatch {
  return {
    prepare: () => store.of(alertsStore).forgetAlerts(),
    start() {},
    deployTold: async () => {},
    stop: async () => {},
  };
}

/** Input of a plan besides the stored state. */
type News = Pick<Parameters<typeof planAlerts>[0], 'happened' | 'over' | 'lasting' | 'toldDirectly'> & {
  /** Also checks which failures ended. */
  readonly isFull?: boolean;
  readonly isStart?: boolean;
  readonly isEnd?: boolean;
};

class Watch {
  readonly #services: WatchServices;
  readonly #stopping = new AbortController();
  /** Deploys to report once the watch is prepared. */
  readonly #waiting: ToldDeploy[] = [];
  #isPrepared = false;
  #turn: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  #unsubscribe = () => {};
  #unready: { readonly since: number; toldAt: number | undefined } | undefined;
  #unreadyToldAt = Number.NEGATIVE_INFINITY;
  readonly #sending = new Set<Promise<unknown>>();
  /** Number of failures checked so far: each look checks the next ones. */
  #asked = 0;

  constructor(services: WatchServices) {
    this.#services = services;
  }

  async prepare(): Promise<void> {
    const { catalog, rules } = this.#services;
    await catalog.deploy(loadAlertFlow(rules));
    this.#isPrepared = true;
    await this.#inTurn(() => this.#look({ ...this.#deploysIn(this.#waiting.splice(0)), isStart: true }));
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#tick(), this.#services.lookEveryMs ?? LOOK_EVERY_MS).unref();
    this.#unsubscribe =
      this.#services.live?.subscribe(({ type, data }) => {
        if (type === 'run.completed' && (data.status === 'Failed' || data.status === 'TimedOut')) this.#lookSoon();
      }) ?? this.#unsubscribe;
    this.#tick();
  }

  async deployTold(deploys: readonly ToldDeploy[]): Promise<void> {
    if (!this.#isPrepared) {
      this.#waiting.push(...deploys);
      return;
    }
    try {
      await this.#inTurn(() => this.#look(this.#deploysIn(deploys)));
    } catch (error) {
      this.#services.logger.error({ err: error }, 'a deploy could not be reported');
    }
  }

  /** A successful deploy ends the alert of refused ones. */
  #deploysIn(deploys: readonly ToldDeploy[]): News {
    const { clock } = this.#services;
    const happened = deploys.flatMap((deploy) =>
      deploy.refusal === null ? accessIncidents(deploy) : [refusedIncident(deploy)],
    );
    const over = deploys.filter(({ refusal }) => refusal === null).map(({ flowId }) => this.#key(refusedCause(flowId)));
    return { happened: happened.map((each) => this.#named({ ...each, at: clock.now() })), over: new Set(over) };
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
    this.#unsubscribe();
    this.#stopping.abort();
    await this.#turn;
    await Promise.allSettled(this.#sending);
    // Otherwise the next process would tell programs that this one's alert has ended.
    if (!this.#isPrepared || this.#unready !== undefined) return;
    await this.#look({ isEnd: true }).catch((err: unknown) => {
      this.#services.logger.debug({ err }, 'that this process ended in order was not stored');
    });
  }

  #inTurn<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  #lookSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#tick();
    }, LOOK_SOON_MS).unref();
  }

  #tick(): void {
    void this.#inTurn(async () => {
      if (this.#stopping.signal.aborted) return;
      try {
        await this.#watchReadiness();
        const { catalog, alerts } = this.#services;
        const concerns = (await this.#services.concerns()).flatMap(concernCause(catalog));
        const lasting = concerns.filter((cause) => alerts.targets.some((target) => wants(target, cause)));
        await this.#look({ lasting: lasting.map((cause) => this.#named(cause)), isFull: true });
      } catch (error) {
        this.#services.logger.warn({ err: error }, 'alerts could not be processed; trying again');
      }
    });
  }

  #key(parts: readonly string[]): string {
    const hash = createHash('sha256').update(JSON.stringify([this.#services.service, ...parts]));
    return `${parts[0]}:${hash.digest('hex').slice(0, 16)}`;
  }

  #named<Named extends Unnamed>({ cause, ...about }: Named): Omit<Named, 'cause'> & { readonly key: string } {
    return { ...about, key: this.#key([about.kind, ...cause]) };
  }

  /** Plans the messages and commits them with the runs that send them; looks again while more failed runs are noted. */
  async #look(news: News): Promise<void> {
    let isMore = true;
    for (let tries = 0, own = news; isMore; own = tries === 0 ? {} : own) {
      if (tries === TRIES) throw new Error('the state of the alerts kept changing before it could be stored');
      const result = await this.#lookOnce(own);
      tries = result === 'outdated' ? tries + 1 : 0;
      isMore = result !== 'done' && !this.#stopping.signal.aborted;
    }
  }

  async #lookOnce({ isFull, isStart, isEnd, ...news }: News): Promise<'done' | 'more' | 'outdated'> {
    const { store, alerts, clock, newId } = this.#services;
    const read = await store.of(alertsStore).readAlerts({ limit: RUNS_A_LOOK });
    const stored = (read.state ?? NO_ALERTS) as unknown as AlertState;
    // An earlier release stored another format.
    const before = 'alerts' in stored ? stored : NO_ALERTS;
    const { key, ...notReady } = this.#notReady();
    const { [key]: since, ...others } = before.running ?? {};
    // The last process of that name stored its start, but not its end.
    const doubtful = isStart && since !== undefined ? [{ ...notReady, key, since, isDoubtful: true }] : [];
    const running = isStart ? { ...others, [key]: clock.now() } : isEnd ? others : before.running;
    const failures = failureIncidents(read.failures).map((each) => this.#named(each));
    const now = clock.now();
    const { state, messages } = planAlerts({
      ...news,
      toldDirectly: news.toldDirectly ?? doubtful,
      state: { ...before, running: newest(running ?? {}) },
      happened: [...(news.happened ?? []), ...failures],
      over: isFull ? await this.#endedFailures(before) : news.over,
      inFlight: await this.#runsInFlight(before),
      targets: alerts.targets,
      repeatMs: alerts.repeatSeconds * 1000,
      now,
      newId,
    });
    const isSame = read.version > 0 && read.failures.length === 0 && JSON.stringify(state) === JSON.stringify(before);
    if (isSame) return 'done';
    const runs = messages.flatMap((message) => this.#runOf(message, now));
    const taken = read.failures.map(({ seq }) => seq);
    const result = await store.of(alertsStore).commitAlerts({
      version: read.version,
      state: state as unknown as Json,
      taken,
      runs,
    });
    if (result === 'outdated') return 'outdated';
    for (const { trigger, ...run } of runs) this.#services.announce(run);
    return read.failures.length === RUNS_A_LOOK ? 'more' : 'done';
  }

  /** Runs that are sending something to programs; none if no program knows of an alert. */
  async #runsInFlight({ targets }: AlertState): Promise<ReadonlySet<string>> {
    const { store, alerts } = this.#services;
    const isAsked = alerts.targets.some(
      (each) => isProgram(each) && Object.keys(targets[each.name]?.told ?? {}).length > 0,
    );
    if (!isAsked) return new Set();
    const { items } = await store.listRuns({ flowId: ALERT_FLOW_ID, status: 'Running', skip: 0, take: RUNS_IN_FLIGHT });
    return new Set(items.map(({ id }) => id));
  }

  /** Keys of failures that have ended: a later run got past the step, or the flow is gone. */
  async #endedFailures({ alerts }: AlertState): Promise<ReadonlySet<string>> {
    const failures = Object.values(alerts).filter(
      ({ happened, goneAt, resolvedAt }) => happened?.failedAt !== undefined && goneAt === null && resolvedAt === null,
    );
    const ended = new Set<string>();
    for (let n = 0; n < Math.min(failures.length, FAILURES_A_LOOK); n += 1) {
      this.#asked += 1;
      const alert = failures[this.#asked % failures.length];
      if (alert !== undefined && (await this.#isEnded(alert))) ended.add(alert.key);
    }
    return ended;
  }

  async #isEnded({ flow, happened }: Alert): Promise<boolean> {
    const { store, catalog } = this.#services;
    if (flow === null || happened?.failedAt === undefined) return false;
    if (catalog.find(flow.id) === undefined) return true;
    const { runId, stepKey } = happened.failedAt;
    if ((await store.findRun(runId))?.status === 'Succeeded') return true;
    const query = { flowId: flow.id, status: 'Succeeded', since: happened.at, skip: 0, take: LATER_RUNS } as const;
    const later = (await store.listRuns(query)).items;
    if (stepKey === null) return later.length > 0;
    for (const { id } of later) {
      const [step] = await store.outlineSteps(id, [stepKey]);
      if (step?.status === 'Succeeded') return true;
    }
    return false;
  }

  /** No run if an operator has disabled the flow: then nobody wants alerts. */
  #runOf({ target, runId, ...told }: PlannedMessage, at: number): NewRun[] {
    const flow = this.#services.catalog.find(ALERT_FLOW_ID);
    if (flow === undefined || !startsRuns(flow.record)) return [];
    const named = this.#services.alerts.targets.find(({ name }) => name === target);
    const message = named !== undefined && isProgram(named) ? this.#factsIn(told) : this.#linesIn(told);
    const body = Buffer.from(JSON.stringify({ target, ...message }));
    const trigger = { key: target, contentType: 'application/json', headers: {}, body };
    const origin = { deliveryId: null, sourceRunId: null, traceparent: null };
    return [planRun({ runId, flow, triggerType: 'manual', trigger, ...origin, at })];
  }

  #factsIn({ changes: [change] }: Pick<PlannedMessage, 'changes'>): AlertMessage {
    if (change === undefined) throw new Error('a program is to be told of nothing');
    return { text: change.text, link: this.#urlOf(change), lines: [], more: 0, alert: factsOf(change) };
  }

  #linesIn({ changes, more, counts }: Pick<PlannedMessage, 'changes' | 'more' | 'counts'>): AlertMessage {
    const { service, clock } = this.#services;
    const now = clock.now();
    const [first] = changes;
    if (changes.length === 1 && more === 0 && first !== undefined) {
      return { text: `${service}: ${lineOf(first, now)}`, link: this.#urlOf(first), lines: [], more };
    }
    const told = Object.entries(counts).flatMap(([status, count]) => (count === 0 ? [] : [`${count} ${status}`]));
    return {
      text: `${service}: ${told.join(', ')}`,
      link: this.#urlOf({ link: null }),
      lines: changes.map((change) => ({ text: lineOf(change, now), link: this.#urlOf(change) })),
      more,
    };
  }

  #urlOf({ link }: Pick<Change, 'link'>): string | null {
    const page = this.#services.pageUrl();
    // Null, not absent: the flow of the alerts reads it.
    return page === undefined ? null : `${page}${link ?? '/flows'}`;
  }

  /** Sends directly: a process is mostly unready because its store is unavailable, and then it cannot start runs. */
  async #watchReadiness(): Promise<void> {
    const { clock, unready } = this.#services;
    const problem = await unready().catch((error: unknown) => ({
      reason: 'store_unavailable',
      message: error instanceof Error ? error.message : 'The store is not writable',
    }));
    const now = clock.monotonic();
    if (problem === undefined) {
      const { toldAt: since } = this.#unready ?? {};
      if (since !== undefined) {
        await Promise.allSettled(this.#sending);
        // The store is back, so the end of the alert is stored and certain to arrive.
        await this.#look({ toldDirectly: [{ ...this.#notReady(), since }] });
      }
      this.#unready = undefined;
      return;
    }
    if (problem.reason === 'stopping') return;
    this.#unready ??= { since: now, toldAt: undefined };
    const isDue = now - this.#unready.since >= UNREADY_AFTER_MS && now - this.#unreadyToldAt >= UNREADY_AGAIN_MS;
    if (this.#unready.toldAt !== undefined || !isDue) return;
    this.#unready.toldAt = clock.now();
    this.#unreadyToldAt = now;
    this.#tellDirectly({ ...this.#notReady(), text: `${this.#services.replica} is not ready: ${problem.message}` });
  }

  #notReady(): Cause {
    const { replica } = this.#services;
    const about = { kind: 'not_ready', severity: 'error', flow: null, trigger: null, link: '/flows' } as const;
    return this.#named({ ...about, cause: [replica], text: `${replica} is ready again` });
  }

  #tellDirectly(cause: Cause): void {
    const { alerts, send, clock, logger } = this.#services;
    const change: Change = { ...cause, status: 'firing', since: clock.now() };
    for (const target of alerts.targets.filter((each) => wants(each, cause))) {
      const untold = (about: object) => logger.error({ target: target.name, ...about }, 'an alert was not delivered');
      const changes = [change];
      const sending = send({
        target: target.name,
        message: isProgram(target)
          ? this.#factsIn({ changes })
          : this.#linesIn({ changes, more: 0, counts: { firing: 1, resolved: 0 } }),
        idempotencyKey: `not-ready:${randomUUID()}`,
        now: () => clock.now(),
        signal: this.#stopping.signal,
      }).then(
        (result) => result.kind === 'failed' && untold({ code: result.code, reason: result.message }),
        (err: unknown) => untold({ err }),
      );
      this.#sending.add(sending);
      void sending.finally(() => this.#sending.delete(sending)).catch(() => {});
    }
  }
}

function newest(running: Readonly<Record<string, number>>): Record<string, number> {
  const entries = Object.entries(running).sort(([, one], [, other]) => other - one);
  return Object.fromEntries(entries.slice(0, MOST_PROCESSES));
}
