import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import { type Catalog, startsRuns } from '../flows/catalog.ts';
import type { Engine } from '../flows/engine.ts';
import { errorAt } from '../manifest/issues.ts';
import { type ManifestRules, parseManifest } from '../manifest/load.ts';
import { subFlowsIn } from '../manifest/sub-flows.ts';
import type { Clock } from '../model/clock.ts';
import type { AccessRoute, Finding } from '../model/finding.ts';
import type { Json } from '../model/json.ts';
import { ALERT_FLOW_ID } from '../model/manifest.ts';
import { planRun } from '../model/planner.ts';
import type { FailedRunNotice, NewRun, Store } from '../store/store.ts';
import type { LiveEvents } from '../telemetry/events.ts';
import type { AlertMessage } from './message.ts';
import { type AlertState, NO_ALERTS, planAlerts, type Thing, wants } from './plan.ts';
import type { AlertSender } from './send.ts';
import type { AlertSettings } from './targets.ts';

/** Eight attempts take half an hour. */
const ALERT_FLOW = {
  id: ALERT_FLOW_ID,
  name: 'Sluice alerts',
  version: '1',
  steps: {
    send: {
      type: 'SendAlert',
      inputs: {
        target: `\${trigger.body.target}`,
        text: `\${trigger.body.text}`,
        link: `\${trigger.body.link}`,
        lines: `\${trigger.body.lines}`,
        more: `\${trigger.body.more}`,
      },
      retry: { maxAttempts: 8, backoffSeconds: 5, factor: 3, maxBackoffSeconds: 600 },
      timeoutSeconds: 60,
    },
  },
};

/** Refuses a manifest that would replace the flow of the alerts, or have its runs tell the targets something else. */
export const leavesAlertFlow: ManifestRules['checks'][number] = ({ manifest: { id, onFailure, steps } }) => {
  const places = [{ flowId: id, path: ['id'] }, { flowId: onFailure, path: ['onFailure'] }, ...subFlowsIn(steps)];
  return places
    .filter(({ flowId }) => flowId === ALERT_FLOW_ID)
    .map(({ path }) =>
      errorAt(path, 'is the id of the flow that Sluice tells of alerts with; no manifest may name it'),
    );
};

/** Something that lasts and needs a person. */
interface Concern {
  readonly kind: string;
  readonly severity: 'error' | 'warning' | 'info';
  readonly message: string;
  readonly link: string;
}

/** A deploy that was refused, or by which others get in. */
interface ToldDeploy {
  readonly flowId: string;
  readonly name: string;
  readonly refusal: string | null;
  readonly routes: readonly AccessRoute[];
  readonly findings: readonly Pick<Finding, 'rule' | 'message'>[];
}

/** Tells the targets what happens. */
export interface AlertWatch {
  /** Notes failed runs from now on. Rejects with `StoreUnavailableError`. */
  prepare(): Promise<void>;
  start(): void;
  /** Resolves when it is durable that the targets will be told; never rejects. */
  deployTold(deploys: readonly ToldDeploy[]): Promise<void>;
  stop(): Promise<void>;
}

interface WatchServices {
  readonly alerts: AlertSettings;
  readonly send: AlertSender;
  readonly store: Pick<Store, 'readAlerts' | 'commitAlerts'>;
  readonly catalog: Pick<Catalog, 'deploy' | 'find' | 'list'>;
  /** Says that a run is durable: its steps start. */
  readonly announce: Engine['announce'];
  readonly rules: ManifestRules;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly newId: () => string;
  /** Where people reach the page, without a slash at its end. */
  readonly pageUrl: string;
  readonly concerns: () => Promise<readonly Concern[]>;
  /** Why this process should get no requests; undefined if it should. Rejects if the store is unavailable. */
  readonly unready: () => Promise<{ readonly reason: string; readonly message: string } | undefined>;
  /** Names this process. */
  readonly replica: string;
  /** A run that fails in this process is looked at soon. */
  readonly live?: Pick<LiveEvents, 'subscribe'> | undefined;
  /** Milliseconds between two looks. */
  readonly lookEveryMs?: number;
}

const LOOK_EVERY_MS = 5000;
/** Failures that come together are told together. */
const LOOK_SOON_MS = 250;
/** Failed runs that one look takes; more are taken at once by the next. */
const RUNS_A_LOOK = 1000;
/** A shorter outage is not reported. */
const UNREADY_AFTER_MS = 15_000;
/** A process that becomes unready again and again is told of once in this time. */
const UNREADY_AGAIN_MS = 600_000;
/** The state may change between a plan and its commit, because another replica looks too. */
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
export function noAlerts(store: Pick<Store, 'forgetAlerts'>): AlertWatch {
  return { prepare: () => store.forgetAlerts(), start() {}, deployTold: async () => {}, stop: async () => {} };
}

class Watch {
  readonly #services: WatchServices;
  readonly #stopping = new AbortController();
  /** Told once the watch is prepared. */
  readonly #waiting: Thing[] = [];
  #isPrepared = false;
  #turn: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #soon: NodeJS.Timeout | undefined;
  #unsubscribe = () => {};
  #unready: { readonly since: number; isTold: boolean } | undefined;
  #unreadyToldAt = Number.NEGATIVE_INFINITY;
  readonly #sending = new Set<Promise<unknown>>();

  constructor(services: WatchServices) {
    this.#services = services;
  }

  async prepare(): Promise<void> {
    const { catalog, rules } = this.#services;
    const { flow, issues } = parseManifest(JSON.stringify(ALERT_FLOW), 'alerts.json', {
      ...rules,
      checks: rules.checks.filter((check) => check !== leavesAlertFlow),
    });
    if (flow === undefined) throw new Error(`The flow of the alerts cannot be loaded: ${JSON.stringify(issues)}`);
    await catalog.deploy(flow);
    this.#isPrepared = true;
    await this.#inTurn(() => this.#look({ happened: this.#waiting.splice(0), lasting: undefined }));
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
    const happened = deploys.flatMap((deploy) =>
      deploy.refusal === null ? accessThings(deploy) : [refusedThing(deploy)],
    );
    if (happened.length === 0) return;
    if (!this.#isPrepared) {
      this.#waiting.push(...happened);
      return;
    }
    try {
      await this.#inTurn(() => this.#look({ happened, lasting: undefined }));
    } catch (error) {
      this.#services.logger.error({ err: error }, 'a deploy could not be reported');
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
    this.#unsubscribe();
    this.#stopping.abort();
    await this.#turn;
    await Promise.allSettled(this.#sending);
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
      await this.#watchReadiness();
      try {
        const lasting = (await this.#services.concerns()).filter(isTold).map(concernThing(this.#services.catalog));
        await this.#look({ happened: [], lasting });
      } catch (error) {
        this.#services.logger[levelOfRetry(error, 'warn')](
          { err: error },
          'alerts could not be processed; trying again',
        );
      }
    });
  }

  /** Plans what is to be told and commits it with the runs that tell it; looks again while more failed runs are noted. */
  async #look({
    happened,
    lasting,
  }: {
    happened: readonly Thing[];
    lasting: readonly Thing[] | undefined;
  }): Promise<void> {
    let isMore = true;
    for (let tries = 0, own = happened; isMore; own = tries === 0 ? [] : own) {
      if (tries === TRIES) throw new Error('the state of the alerts kept changing before it could be stored');
      const result = await this.#lookOnce(own, lasting);
      tries = result === 'outdated' ? tries + 1 : 0;
      isMore = result !== 'done' && !this.#stopping.signal.aborted;
    }
  }

  async #lookOnce(own: readonly Thing[], lasting: readonly Thing[] | undefined): Promise<'done' | 'more' | 'outdated'> {
    const { store, alerts, clock, newId } = this.#services;
    const read = await store.readAlerts({ limit: RUNS_A_LOOK });
    const before = (read.state ?? NO_ALERTS) as unknown as AlertState;
    const now = clock.now();
    const { state, messages } = planAlerts({
      state: before,
      happened: [...own, ...failureThings(read.failures)],
      lasting,
      targets: alerts.targets,
      repeatMs: alerts.repeatSeconds * 1000,
      now,
      newId,
    });
    const isSame = read.version > 0 && read.failures.length === 0 && JSON.stringify(state) === JSON.stringify(before);
    if (isSame) return 'done';
    const runs = messages.flatMap((message) => this.#runOf(message, now));
    const taken = read.failures.map(({ seq }) => seq);
    const result = await store.commitAlerts({
      version: read.version,
      state: state as unknown as Json,
      taken,
      runs,
    });
    if (result === 'outdated') return 'outdated';
    for (const { trigger, ...run } of runs) this.#services.announce(run);
    return read.failures.length === RUNS_A_LOOK ? 'more' : 'done';
  }

  /** None where an operator has disabled the flow: then nobody wants to be told. */
  #runOf({ target, runId, lines, more }: ReturnType<typeof planAlerts>['messages'][number], at: number): NewRun[] {
    const flow = this.#services.catalog.find(ALERT_FLOW_ID);
    if (flow === undefined || !startsRuns(flow.record)) return [];
    const body = Buffer.from(JSON.stringify({ target, ...this.#messageOf(lines, more) }));
    const trigger = { key: target, contentType: 'application/json', headers: {}, body };
    const origin = { deliveryId: null, sourceRunId: null, traceparent: null };
    return [planRun({ runId, flow, triggerType: 'manual', trigger, ...origin, at })];
  }

  #messageOf(lines: readonly { text: string; link: string | null }[], more: number): AlertMessage & { link: string } {
    const base = this.#services.pageUrl;
    const [first] = lines;
    if (lines.length === 1 && more === 0 && first !== undefined) {
      return { text: `Sluice: ${first.text}`, link: `${base}${first.link ?? '/flows'}`, lines: [], more };
    }
    return {
      text: `Sluice: ${lines.length + more} problems need attention`,
      link: `${base}/flows`,
      lines: lines.map(({ text, link }) => ({ text, link: link === null ? null : `${base}${link}` })),
      more,
    };
  }

  /** Tells directly: what makes a process unready is mostly that its store is away, and with it every run. */
  async #watchReadiness(): Promise<void> {
    const { clock, unready } = this.#services;
    const problem = await unready().catch((error: unknown) => ({
      reason: 'store_unavailable',
      message: error instanceof Error ? error.message : 'The store is not writable',
    }));
    const now = clock.monotonic();
    if (problem === undefined) {
      if (this.#unready?.isTold === true) this.#tellDirectly(`${this.#services.replica} is ready again`);
      this.#unready = undefined;
      return;
    }
    if (problem.reason === 'stopping') return;
    this.#unready ??= { since: now, isTold: false };
    const isDue = now - this.#unready.since >= UNREADY_AFTER_MS && now - this.#unreadyToldAt >= UNREADY_AGAIN_MS;
    if (this.#unready.isTold || !isDue) return;
    this.#unready.isTold = true;
    this.#unreadyToldAt = now;
    this.#tellDirectly(`${this.#services.replica} is not ready: ${problem.message}`);
  }

  #tellDirectly(text: string): void {
    const { alerts, send, clock, logger, pageUrl } = this.#services;
    for (const target of alerts.targets.filter((each) => wants(each, { event: 'not_ready', flow: null }))) {
      const untold = (about: object) => logger.error({ target: target.name, ...about }, 'an alert was not delivered');
      const sending = send({
        target: target.name,
        message: { text: `Sluice: ${text}`, link: `${pageUrl}/flows`, lines: [], more: 0 },
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

/** Notes need no immediate action; failed runs are reported separately, and an unavailable store directly. */
function isTold({ kind, severity }: Concern): boolean {
  return severity !== 'info' && kind !== 'failed_runs' && kind !== 'store_unavailable';
}

function concernThing(catalog: Pick<Catalog, 'find'>) {
  return ({ kind, message, link }: Concern): Thing => {
    // The link of what belongs to a flow names it, and stays the same while numbers in the message grow.
    const [id] = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(link) ?? [];
    const record = id === undefined ? undefined : catalog.find(id)?.record;
    const flow = record === undefined ? null : { id: record.id, name: record.name };
    return { key: `${kind} ${link}`, event: 'attention', flow, text: message, link, count: 1, what: '' };
  };
}

function accessThings({ flowId, name, routes, findings }: ToldDeploy): Thing[] {
  const opened = routes.filter(({ access }) => access === 'wider');
  const named = opened.map(({ route, reasons }) => `${route}: ${reasons.join(' ')}`).join(' ');
  const changed = findings.filter(({ rule }) => rule === 'secret-changed').map(({ message }) => message);
  const about = {
    event: 'access.widened',
    flow: { id: flowId, name },
    link: `/flows/flows/${flowId}`,
    count: 1,
  } as const;
  const widened: Thing = {
    ...about,
    key: `access.widened ${flowId}`,
    text: `More deliveries get in to ${name}: ${shortened(named)}`,
    what: `changes let more deliveries in to ${name}`,
  };
  const secrets: Thing = {
    ...about,
    key: `secret.changed ${flowId}`,
    text: `Secrets of ${name} changed: ${shortened(changed.join(' '))}`,
    what: `changes of secrets of ${name}`,
  };
  return [...(opened.length > 0 ? [widened] : []), ...(changed.length > 0 ? [secrets] : [])];
}

function refusedThing({ flowId, name, refusal }: ToldDeploy): Thing {
  return {
    key: `deploy.refused ${flowId}`,
    event: 'deploy.refused',
    flow: { id: flowId, name },
    text: `A deploy of ${name} was refused: ${shortened(refusal ?? '')}`,
    link: `/flows/flows/${flowId}`,
    count: 1,
    what: `deploys of ${name} were refused`,
  };
}

/** One thing for each flow. A run that tells a target is none: the attention list says that an alert was not delivered. */
function failureThings(failures: readonly FailedRunNotice[]): Thing[] {
  const byFlow = new Map<string, FailedRunNotice[]>();
  for (const notice of failures) {
    if (notice.flowId === ALERT_FLOW_ID) continue;
    byFlow.set(notice.flowId, [...(byFlow.get(notice.flowId) ?? []), notice]);
  }
  return [...byFlow.values()].flatMap((notices): Thing[] => {
    const [first] = notices;
    if (first === undefined) return [];
    const { flowId, flowName, runId } = first;
    const allLink = `/flows/runs?status=Failed&flowId=${flowId}`;
    const several = `${notices.length} runs of ${flowName} failed, the first ${whyFailed(first)}`;
    return [
      {
        key: `run.failed ${flowId}`,
        event: 'run.failed',
        flow: { id: flowId, name: flowName },
        text: notices.length === 1 ? `A run of ${flowName} failed ${whyFailed(first)}` : several,
        link: notices.length === 1 ? `/flows/runs/${runId}` : allLink,
        allLink,
        count: notices.length,
        what: `runs of ${flowName} failed`,
      },
    ];
  });
}

function whyFailed({ status, stepKey, error }: FailedRunNotice): string {
  if (status === 'TimedOut') return 'because it reached its time limit';
  if (stepKey === null) return 'without an error of a step';
  return `at ${stepKey}: ${shortened(error?.message ?? 'no error was stored')}`;
}

const MOST_CHARACTERS = 300;

function shortened(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= MOST_CHARACTERS
    ? line
    : `${line.slice(0, MOST_CHARACTERS - 1).replace(/\p{Surrogate}$/u, '')}…`;
}
