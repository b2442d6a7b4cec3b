import { randomUUID } from 'node:crypto';
import pino from 'pino';
import { v7 as newId } from 'uuid';
import { createAttempt, type Followed } from '../../flows/attempt.ts';
import { createCatalog } from '../../flows/catalog.ts';
import type { HandlerTable } from '../../flows/handlers/index.ts';
import { createLeases, LEASE_MS } from '../../flows/leases.ts';
import { bytesOfJson } from '../../flows/non-json.ts';
import { createReport } from '../../flows/report.ts';
import { createRunStep, type RanStep, type RunStep } from '../../flows/run-step.ts';
import { type WaitLinks, waitsSeenFrom } from '../../flows/wait-links.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import type { SecretReader } from '../../manifest/read-secret.ts';
import { inOrder } from '../../model/graph.ts';
import type { Json } from '../../model/json.ts';
import type { Graph, RunTriggerType } from '../../model/manifest.ts';
import { planRun } from '../../model/planner.ts';
import type { RunTrigger } from '../../model/run.ts';
import { holderOf, parseRuntimeKey, SOLE_OWNER, stepAt } from '../../model/runtime-keys.ts';
import type { Claim, RunDetail, StepDetail, Store } from '../../store/store.ts';
import { createMetrics } from '../../telemetry/metrics.ts';
import type { SimulatedRun } from './simulated-run.ts';

/** What starts a run, and what reaches it from outside. */
export interface SimulatedStart {
  readonly trigger: RunTrigger;
  readonly triggerType: RunTriggerType;
  /** When it starts, in milliseconds since the Unix epoch. */
  readonly at: number;
  /**
   * Name and body of each, sent in this order once nothing else is left to do at a point in time. A signal with a step
   * path is sent once that step waits for it.
   */
  readonly signals?: readonly SimulatedSignal[] | undefined;
  /** Paths of steps that may still get a signal: their outcome is unknown. */
  readonly awaiting?: ReadonlySet<string> | undefined;
  readonly limits?: SimulationLimits | undefined;
}

type SimulatedSignal = readonly [name: string, body: Json, path?: string];

/** A simulation stops where it is when it reaches a limit. */
export interface SimulationLimits {
  /** Limits attempts, and separately the steps that loops and sub-runs add, most of which may be skipped. */
  readonly steps: number;
  readonly milliseconds: number;
  /** Inputs and outputs of its attempts, as JSON: all of them are in memory. */
  readonly bytes: number;
}

/**
 * One attempt that did not end at once. The path of a step is its runtime key, such as `key.0.child` in a loop. For a
 * sub-run, the path of the starting step comes first: `go/charge`, or `go#2/charge` for its second run; for the flow
 * that a failure started, `(onFailure)/tell`.
 */
interface Wait {
  readonly path: string;
  readonly kind: 'time' | 'signal' | 'retry';
  /** Name of the signal; null if it waits for none. */
  readonly signal: string | null;
  /** Longest duration; null if unlimited. */
  readonly ms: number | null;
}

/** A step that the run reached. */
export interface ReachedStep {
  readonly path: string;
  readonly step: StepDetail;
}

export interface Simulation {
  readonly run: SimulatedRun;
  /** Of the run, its sub-runs and its failure run, by start; a skipped step follows the steps that it ran after. */
  readonly steps: readonly ReachedStep[];
  /** In the order in which they began. */
  readonly waits: readonly Wait[];
  /** Paths of steps with an unknown outcome; the steps that would follow are missing. */
  readonly unanswered: readonly string[];
  /** The limit that ended it; null if none did. */
  readonly stoppedBy: keyof SimulationLimits | null;
  /** Inputs and outputs of its attempts, as JSON; not counted without limits. */
  readonly bytes: number;
}

interface SimulatorServices {
  /** An empty store, for this simulator alone; the caller closes it. */
  readonly store: Store;
  readonly flow: LoadedFlow;
  /** All flows that the flow's steps or failure may start, directly or indirectly. */
  readonly flows: readonly LoadedFlow[];
  readonly handlers: HandlerTable;
  readonly readSecret: SecretReader;
}

/**
 * Runs a flow in memory with the engine, planner and steps of a service. Time does not pass; it jumps to the next due
 * time. One run at a time.
 */
export interface Simulator {
  run(start: SimulatedStart): Promise<Simulation>;
  /** Path of a step of the current or the last simulated run. */
  pathOf(runId: string, stepKey: string): string;
  /** Run ids of the simulation with their names: `[run]`, `[run go]`. */
  runNames(): readonly (readonly [id: string, name: string])[];
}

/** The wait of a step whose outcome is unknown: it never ends, whatever the step's time limit. */
export const UNANSWERED = '\0unanswered';

const HALF = () => 0.5;
const SIMULATED = 'https://sluice.invalid/flows/api/webhook/answers';

export async function createSimulator(services: SimulatorServices): Promise<Simulator> {
  const { store, flow, flows } = services;
  const clock = { at: 0, now: () => clock.at, monotonic: () => clock.at };
  const catalog = createCatalog(store, clock);
  for (const each of flows) await catalog.deploy(each);
  const deployed = await catalog.deploy(flow);
  const logger = pino({ level: 'silent' });
  const waits: WaitLinks = async ({ flowId, revision, stepKey }) => {
    const { graph } = await catalog.pinned(flowId, revision);
    // These links answer nothing.
    const links = Array.from(waitsSeenFrom(graph, stepKey), ([key, at]) => [key, { url: `${SIMULATED}/${at}` }]);
    return Object.fromEntries(links);
  };
  const runStep = createRunStep({ ...services, catalog, clock, logger, random: HALF, waits });
  // If steps are limited, only a claim can decide which is next.
  const isLimited = [flow, ...flows].some(({ manifest: { id } }) => catalog.find(id)?.prepared.isLimited === true);
  const graphOf = async (run: Pick<RunDetail, 'flowId' | 'revision'>) =>
    (await catalog.pinned(run.flowId, run.revision)).graph;
  const broughtBy = async (claim: Claim, result: RanStep['result']): Promise<number> => {
    if (result.kind === 'runFlow') return sizeOf(catalog.find(result.flowId)?.loaded.manifest.steps);
    if (result.kind !== 'loop') return 0;
    return result.items.length * sizeOf(stepAt(await graphOf(claim), claim.stepKey)?.steps);
  };
  let last: Course | undefined;
  return {
    pathOf: (runId, stepKey) => last?.pathOf(runId, stepKey) ?? stepKey,
    runNames: () => last?.runNames() ?? [],
    async run({ trigger, triggerType, at, signals = [], awaiting, limits }) {
      await last?.leave(store, clock.at);
      clock.at = at;
      const run = planRun({
        runId: newId(),
        flow: deployed,
        triggerType,
        at,
        trigger,
        deliveryId: null,
        sourceRunId: null,
        traceparent: null,
      });
      const course = new Course(run.id, { limits, awaiting, broughtBy });
      last = course;
      await store.accept({ run });
      const attempt = createAttempt({
        store,
        runStep: course.watched(runStep, clock),
        clock,
        logger,
        report: createReport({ logger, metrics: createMetrics() }),
        random: HALF,
      });
      const leases = createLeases({ store, clock, logger });
      const leasedUntil = () => clock.at + LEASE_MS;
      const lease = () => ({ holder: holderOf(SOLE_OWNER, randomUUID()), leasedUntil: leasedUntil(), limit: 100 });
      const follow = async (claim: Claim): Promise<void> => {
        await slots.take();
        const held = leases.hold(claim, leasedUntil());
        const followed = await attempt(held, () => (isLimited ? {} : { lease: lease() })).finally(slots.leave);
        if (followed === undefined) return;
        course.note(claim, followed);
        await Promise.all(followed.claims.map(follow));
      };
      const slots = slotsFor(ATTEMPTS_AT_ONCE);
      const left = [...signals];
      const pathOf = ({ runId, stepKey }: Claim) => course.pathOf(runId, stepKey);
      while (!course.isStopped) {
        const asked = { owner: SOLE_OWNER, now: clock.at, leasedUntil: leasedUntil(), limit: 16 };
        const overdue = await store.claimOverdue(asked);
        const due = await store.claimDue(asked);
        // Sorted, so that the order is always the same.
        const claims = [...overdue.claims, ...due.claims].sort((one, other) => (pathOf(one) < pathOf(other) ? -1 : 1));
        await Promise.all(claims.map(follow));
        if (claims.length > 0) continue;
        const signal = course.takeSignal(left);
        if (signal !== undefined) {
          await store.deliverSignal({ ...signal, at: clock.at });
          continue;
        }
        const next = course.nextOf(overdue.nextAt, due.nextDueAt);
        if (next === null || (await store.findRun(run.id))?.status !== 'Running') break;
        clock.at = Math.max(clock.at, next);
      }
      return course.seen(store, graphOf);
    },
  };
}

const sizeOf = (graph: Graph = {}) => Object.keys(graph).length;

interface CourseOptions extends Pick<SimulatedStart, 'limits' | 'awaiting'> {
  /** Counts the steps of a starting loop or sub-run. */
  readonly broughtBy: (claim: Claim, result: RanStep['result']) => Promise<number>;
}

/** Each attempt holds what its expressions read, possibly the whole body of a delivery. */
const ATTEMPTS_AT_ONCE = 16;

/** Lets at most `count` go on at once, in order of arrival. */
function slotsFor(count: number): { take(): Promise<void>; leave(): void } {
  let free = count;
  const waiting: (() => void)[] = [];
  return {
    async take() {
      if (free === 0) await new Promise<void>((resolve) => waiting.push(resolve));
      else free -= 1;
    },
    leave() {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    },
  };
}

/** The record of one simulated run. */
class Course {
  readonly #runId: string;
  /** Runs that have not ended. */
  readonly #left: string[] = [];
  readonly #limits: SimulatedStart['limits'];
  readonly #awaiting: SimulatedStart['awaiting'];
  readonly #broughtBy: CourseOptions['broughtBy'];
  readonly #endsAt: number;
  readonly #prefixes: Map<string, string>;
  readonly #waits: Wait[] = [];
  readonly #unanswered: string[] = [];
  /** By step path: the signal that the step waits for. */
  readonly #awaited = new Map<string, { readonly runId: string; readonly name: string }>();
  /** Paths of steps, in the order of their first attempts. */
  readonly #begun = new Map<string, number>();
  #steps = 0;
  /** Steps of loops and sub-runs: each gets a row, whatever its outcome. */
  #brought = 0;
  #bytes = 0;
  #stoppedBy: keyof SimulationLimits | null = null;

  constructor(runId: string, { limits, awaiting, broughtBy }: CourseOptions) {
    this.#runId = runId;
    this.#broughtBy = broughtBy;
    this.#limits = limits;
    this.#awaiting = awaiting;
    this.#endsAt = performance.now() + (limits?.milliseconds ?? Number.POSITIVE_INFINITY);
    this.#prefixes = new Map([[runId, '']]);
  }

  get isStopped(): boolean {
    if (performance.now() > this.#endsAt) this.#stoppedBy ??= 'milliseconds';
    return this.#stoppedBy !== null;
  }

  pathOf(runId: string, stepKey: string): string {
    return `${this.#prefixes.get(runId) ?? ''}${stepKey}`;
  }

  runNames(): (readonly [id: string, name: string])[] {
    return [...this.#prefixes].map(([id, prefix]) => [id, `[${`run ${prefix.slice(0, -1)}`.trim()}]`]);
  }

  watched(runStep: RunStep, clock: { now(): number }): RunStep {
    return async (claim, lease, watch) => {
      this.#steps += 1;
      if (this.#steps > (this.#limits?.steps ?? Number.POSITIVE_INFINITY)) this.#stoppedBy ??= 'steps';
      if (this.isStopped) return { input: null, result: NEVER };
      const path = this.pathOf(claim.runId, claim.stepKey);
      this.#awaited.delete(path);
      if (!this.#begun.has(path)) this.#begun.set(path, this.#begun.size);
      const ran = await runStep(claim, lease, watch);
      if (ran !== undefined && (this.#isTooLarge(ran) || (await this.#bringsTooMany(claim, ran)))) {
        return { input: null, result: NEVER };
      }
      if (ran?.result.kind === 'waiting' && ran.result.signalName !== null) {
        this.#awaited.set(path, { runId: claim.runId, name: ran.result.signalName });
      }
      return ran && { ...ran, result: this.#resultOf(path, ran, clock.now()) };
    };
  }

  async #bringsTooMany(claim: Claim, { result }: RanStep): Promise<boolean> {
    if (this.#limits === undefined) return false;
    this.#brought += await this.#broughtBy(claim, result);
    if (this.#brought > this.#limits.steps) this.#stoppedBy ??= 'steps';
    return this.#brought > this.#limits.steps;
  }

  #isTooLarge(ran: RanStep): boolean {
    if (this.#limits === undefined) return false;
    const { bytes } = this.#limits;
    this.#bytes += bytesOfJson(ran, bytes - this.#bytes);
    if (this.#bytes > bytes) this.#stoppedBy ??= 'bytes';
    return this.#bytes > bytes;
  }

  /** Takes the first signal that can be sent now. */
  takeSignal(left: SimulatedSignal[]): { runId: string; name: string; body: Json } | undefined {
    const index = left.findIndex(([name, , path]) => path === undefined || this.#awaited.get(path)?.name === name);
    const [taken] = index === -1 ? [] : left.splice(index, 1);
    if (taken === undefined) return undefined;
    const [name, body, path] = taken;
    return { runId: (path === undefined ? undefined : this.#awaited.get(path)?.runId) ?? this.#runId, name, body };
  }

  #resultOf(path: string, { result }: RanStep, now: number): RanStep['result'] {
    if (result.kind === 'retry') {
      this.#waits.push({ path, kind: 'retry', signal: null, ms: result.dueAt - now });
      return result;
    }
    if (result.kind !== 'waiting') return result;
    const { dueAt, signalName: signal } = result;
    if (signal === UNANSWERED || (signal !== null && this.#awaiting?.has(path) === true)) {
      this.#unanswered.push(path);
      return NEVER;
    }
    const ms = dueAt === null ? null : dueAt - now;
    this.#waits.push({ path, kind: signal === null ? 'time' : 'signal', signal, ms });
    return result;
  }

  /** Adds runs that the step started to this record. */
  note({ runId, stepKey }: Claim, { startedRuns }: Followed): void {
    for (const { id, triggerType } of startedRuns) {
      const own = triggerType === 'failure' ? this.pathOf(runId, '(onFailure)') : this.pathOf(runId, stepKey);
      const others = [...this.#prefixes.values()].filter((prefix) => prefix.replace(/#\d+\/$/, '/') === `${own}/`);
      // A retried step starts another run.
      this.#prefixes.set(id, others.length === 0 ? `${own}/` : `${own}#${others.length + 1}/`);
    }
  }

  /** While an outcome is unknown, no time limit is reached: the run might have ended before. */
  nextOf(limitAt: number | null, dueAt: number | null): number | null {
    const times = [limitAt, dueAt].filter((at) => at !== null);
    if (times.length === 0) return null;
    const next = Math.min(...times);
    return this.#unanswered.length > 0 && next === limitAt ? null : next;
  }

  async seen(store: Store, graphOf: (run: RunDetail) => Promise<Graph>): Promise<Simulation> {
    const runs = new Map<string, SimulatedRun & { readonly subRuns: SimulatedRun[] }>();
    const reached: (ReachedStep & { readonly rank: number })[] = [];
    for (const [runId, prefix] of this.#prefixes) {
      const [run, steps = []] = await Promise.all([store.findRun(runId), store.listSteps(runId)]);
      if (run === undefined) throw new Error('the run is not in the store');
      if (run.status === 'Running') this.#left.push(runId);
      const seen = { ...run, steps: Object.fromEntries(steps.map((step) => [step.stepKey, step])), subRuns: [] };
      runs.set(runId, seen);
      if (run.triggerType === 'flow') runs.get(run.sourceRunId ?? '')?.subRuns.push(seen);
      const rankOf = this.#ranks(prefix, await graphOf(run));
      for (const step of steps) reached.push({ path: `${prefix}${step.stepKey}`, step, rank: rankOf(step.stepKey) });
    }
    reached.sort((one, other) => one.rank - other.rank);
    const run = runs.get(this.#runId);
    if (run === undefined) throw new Error('the run was not simulated');
    const steps = reached.map(({ path, step }) => ({ path, step }));
    const [unanswered, stoppedBy, bytes] = [this.#unanswered, this.#stoppedBy, this.#bytes];
    return { run, steps, waits: this.#waits, unanswered, stoppedBy, bytes };
  }

  #ranks(prefix: string, graph: Graph): (stepKey: string) => number {
    const ranks = new Map<string, number>();
    // Visits all steps of a graph in order. Following every path to a step would take forever after a few layers.
    const rank = ({ scope, iteration }: ReturnType<typeof parseRuntimeKey>) => {
      const own = iteration === null ? graph : (stepAt(graph, iteration.loopKey)?.steps ?? {});
      for (const key of inOrder(own)) {
        const upstream = Object.keys(own[key]?.runAfter ?? {}).map((each) => ranks.get(`${scope}${each}`) ?? -1);
        const begun = this.#begun.get(`${prefix}${scope}${key}`);
        ranks.set(`${scope}${key}`, begun ?? Math.max(-1, ...upstream) + BEHIND);
      }
    };
    return (stepKey) => {
      if (!ranks.has(stepKey)) rank(parseRuntimeKey(stepKey));
      return ranks.get(stepKey) ?? BEHIND - 1;
    };
  }

  /** Cancels the runs that have not ended, so that their steps do not become due during another run. */
  async leave(store: Store, at: number): Promise<void> {
    for (const runId of this.#left) await store.cancelRun({ runId, reason: null, at });
  }
}

/** Small enough that even a chain of all steps of a graph adds less than 1. */
const BEHIND = 2 ** -20;

const NEVER: RanStep['result'] = { kind: 'waiting', state: null, dueAt: null, signalName: null };
