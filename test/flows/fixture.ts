import { createHash } from 'node:crypto';
import { pino } from 'pino';
import { afterEach, beforeEach, onTestFinished, vi } from 'vitest';
import { z } from 'zod';
import { stepTypes } from '../../src/config/steps.ts';
import { type Catalog, createCatalog } from '../../src/flows/catalog.ts';
import {
  defineHandler,
  type HandlerResult,
  type StepContext,
  type StepHandler,
} from '../../src/flows/handlers/handler.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { createRuntime, type Runtime } from '../../src/flows/runtime.ts';
import type { LoadedFlow } from '../../src/manifest/load.ts';
import type { Manifest } from '../../src/manifest/schema.ts';
import { snapshotOf } from '../../src/manifest/secrets.ts';
import type { Clock, ServiceClock } from '../../src/model/clock.ts';
import type { Json } from '../../src/model/json.ts';
import type { Graph, StepDefinition } from '../../src/model/manifest.ts';
import type { RunDetail, StepDetail, Store } from '../../src/store/store.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { openEmptyStore } from '../database.ts';
import { until } from '../eventually.ts';

export { until };

export const FLOW_ID = '0b7c9d10-0000-4000-8000-000000000001';
export const START = Date.parse('2026-03-01T12:00:00Z');

/** Stops the timers of each test until it advances them; the store's thread needs none. */
export function standingTimers(): void {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
}

export interface FakeClock extends Clock {
  /** Advances both clocks. */
  pass(ms: number): void;
  /** Changes only the wall clock, by so many milliseconds. */
  set(ms: number): void;
}

export function fakeClock(): FakeClock {
  let passed = 0;
  let wasSetBy = 0;
  return {
    now: () => START + passed + wasSetBy,
    monotonic: () => passed,
    pass: (ms) => {
      passed += ms;
    },
    set: (ms) => {
      wasSetBy += ms;
    },
  };
}

/** The time of a service that follows its machine's clock at once, however it is set. */
export function followed(machine: Clock): ServiceClock {
  return {
    ...machine,
    ledger: () => START + machine.monotonic(),
    isFit: () => true,
    clockOffsetMs: () => 0,
    follow() {},
  };
}

/** A logger that keeps its lines. */
export function recordingLogger() {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ level: 'trace' }, { write: (line: string) => lines.push(JSON.parse(line)) });
  const events = (...names: string[]) => lines.filter(({ eventName }) => names.includes(String(eventName)));
  return { lines, logger, events };
}

export function manifestOf(steps: Graph, change: Partial<Manifest> = {}): Manifest {
  const triggers = { manual: { type: 'manual', inputs: {} } } as const;
  return { id: FLOW_ID, name: 'Orders', version: '1.0', triggers, steps, ...change };
}

export function stepOf(type: string, change: Partial<StepDefinition> = {}): StepDefinition {
  return { type, inputs: {}, runAfter: {}, ...change };
}

export const DONE: HandlerResult = { kind: 'succeeded', output: null };

/** A step type that takes any inputs. */
export function ownHandler(type: string, run: (context: StepContext) => HandlerResult | Promise<HandlerResult>) {
  return defineHandler({ type, inputs: z.unknown(), run });
}

/** A handler whose steps run until the test ends them, one by one. */
export function gate() {
  const waiting: { context: StepContext; end: (result?: HandlerResult) => void }[] = [];
  const handler = ownHandler(
    'Gate',
    (context) => new Promise((resolve) => waiting.push({ context, end: (result = DONE) => resolve(result) })),
  );
  return { handler, waiting };
}

/** A manifest in the form that the loader returns. */
export function loadedFlow(manifest: Manifest, handlers: readonly StepHandler[] = []): LoadedFlow {
  const table = handlerTable(handlers);
  const snapshot = snapshotOf(manifest, (type) => table.get(type)?.secretInputs ?? []);
  const hash = createHash('sha256').update(JSON.stringify(snapshot)).digest('hex');
  return { file: 'orders.json', manifest, snapshot, files: {}, hash, source: 'folder', webhooks: [] };
}

/** An empty store, closed when the test ends. */
export async function openStore(): Promise<Store> {
  const store = await openEmptyStore();
  onTestFinished(() => store.close());
  return store;
}

export interface FlowService {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly runtime: Runtime;
  readonly metrics: Metrics;
  readonly clock: FakeClock;
  readonly log: ReturnType<typeof recordingLogger>;
  /** Deploys a flow with these steps. */
  deploy(steps: Graph, change?: Partial<Manifest>): Promise<void>;
  /** Starts a run and returns its id. */
  trigger(body?: Json): Promise<string>;
  ended(runId: string): Promise<RunDetail>;
  /** Steps that have a row, by key. */
  steps(runId: string): Promise<Record<string, StepDetail>>;
}

export interface FlowServiceOptions
  extends Partial<
    Pick<Parameters<typeof createRuntime>[0], 'store' | 'readSecret' | 'concurrency' | 'random' | 'isServedElsewhere'>
  > {
  /** Handlers in addition to the built-in ones. */
  readonly own?: readonly StepHandler[];
  readonly egressAllow?: readonly string[];
  /** Makes the service's clock from the machine's. The default follows a set clock at once. */
  readonly goesBy?: (machine: Clock) => ServiceClock;
}

/** A complete runtime on a real store with the test's clock; stopped when the test ends. */
export async function openFlowService(options: FlowServiceOptions = {}): Promise<FlowService> {
  const store = options.store ?? (await openStore());
  const clock = fakeClock();
  const log = recordingLogger();
  const metrics = createMetrics();
  const catalog = createCatalog(store, clock);
  const handlers = [...stepTypes({ egressAllow: options.egressAllow ?? [] }).handlers, ...(options.own ?? [])];
  const runtime = createRuntime({
    store,
    catalog,
    handlers: handlerTable(handlers),
    readSecret: () => ({ error: 'there are no secrets' }),
    clock: (options.goesBy ?? followed)(clock),
    logger: log.logger,
    metrics,
    random: () => 0.5,
    ...options,
  });
  onTestFinished(() => runtime.stop(0));
  return {
    store,
    catalog,
    runtime,
    metrics,
    clock,
    log,
    deploy: async (steps, change) => {
      await catalog.deploy(loadedFlow(manifestOf(steps, change), handlers));
    },
    trigger: async (body = null) => {
      const result = await runtime.engine.triggerFlow({
        flowId: FLOW_ID,
        triggerKey: 'manual',
        triggerType: 'manual',
        body: Buffer.from(JSON.stringify(body)),
        contentType: 'application/json',
        headers: { 'x-a': 'b' },
      });
      if (result.kind !== 'started') throw new Error(`the run was not started: ${result.kind}`);
      return result.runId;
    },
    ended: async (runId) =>
      (await until(
        () => store.findRun(runId),
        (run) => run !== undefined && run.status !== 'Running',
      )) as RunDetail,
    steps: async (runId) => {
      const steps = (await store.listSteps(runId)) ?? [];
      return Object.fromEntries(steps.map((step) => [step.stepKey, step]));
    },
  };
}

/** A started service with one flow. */
export async function openStarted(
  options: FlowServiceOptions,
  ...deployed: Parameters<FlowService['deploy']>
): Promise<FlowService> {
  const service = await openFlowService(options);
  await service.deploy(...deployed);
  await service.runtime.start();
  return service;
}

/** A placeholder of a template. */
export const cel = (expression: string): string => `\${${expression}}`;
