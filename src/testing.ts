import pino from 'pino';
import { v7 as newId } from 'uuid';
import { z } from 'zod';
import { createAttempt } from './flows/attempt.ts';
import { createCatalog } from './flows/catalog.ts';
import { createEngine } from './flows/engine.ts';
import { defineHandler, type HandlerResult, type StepContext, type StepHandler } from './flows/handlers/handler.ts';
import { builtInHandlers, type HandlerTable, handlerTable } from './flows/handlers/index.ts';
import { createLeases } from './flows/leases.ts';
import { createReport } from './flows/report.ts';
import { createRunStep } from './flows/run-step.ts';
import { formatIssue, type ManifestIssue } from './manifest/issues.ts';
import type { LoadedFlow } from './manifest/load.ts';
import { readManifest } from './manifest/parse.ts';
import type { Json } from './model/json.ts';
import { SOLE_OWNER } from './model/runtime-keys.ts';
import type { RunDetail, StepDetail } from './store/contract/runs.ts';
import { openSqliteStore } from './store/sqlite/client.ts';
import type { Store } from './store/store.ts';
import { createMetrics } from './telemetry/metrics.ts';

/** Replaces a step type: yields the step's output, or a result as a handler does. An error fails the step. */
export type Stub = (context: StepContext<Json>) => Json | HandlerResult | Promise<Json | HandlerResult>;

export interface RunFlowOptions {
  /** What expressions read as `trigger.body`; null where not given. */
  readonly body?: Json;
  /** Names in any case; expressions read them in lower case, as those of a request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Key of the trigger; the manifest's first where not given. */
  readonly trigger?: string;
  /** By step type: stubs and handlers of one's own, which go before the built-in ones. */
  readonly handlers?: Readonly<Record<string, Stub | StepHandler>>;
  /**
   * Manifests of the flows that its `RunFlow` steps run, and those in turn: they run for real. A step whose flow is not
   * among them fails with `flow_not_pinned`; a stub of `RunFlow` among `handlers` runs none.
   */
  readonly flows?: readonly unknown[];
  /** Signals by name, sent when nothing else is left to do. */
  readonly signals?: Readonly<Record<string, Json>>;
  /** Values of `env:NAME` and `file:PATH` references, by the whole reference; those of triggers need none. */
  readonly secrets?: Readonly<Record<string, string>>;
  /** When the run starts; the present where not given. */
  readonly startAt?: Date;
  readonly egressAllow?: readonly string[];
}

export interface TestedRun extends RunDetail {
  /** By key; children of loops as `key.0.child`. */
  readonly steps: Readonly<Record<string, StepDetail>>;
  /** The runs that its `RunFlow` steps started, oldest first; of more than 500 the newest. */
  readonly subRuns: readonly TestedRun[];
}

/**
 * Runs a manifest in memory and yields how it ended. Time does not pass but jumps to whatever is due next, so that a
 * delay of a week takes no time. A run that waits for a signal that is not given is returned as it is, `Running`.
 * Throws where the manifest has errors, with one line for each.
 *
 * @example
 * const run = await runFlow(manifest, { body: { total: 7 }, handlers: { HttpRequest: () => ({ status: 200 }) } });
 * assert.equal(run.steps.charge.status, 'Succeeded');
 */
export async function runFlow(manifest: unknown, options: RunFlowOptions = {}): Promise<TestedRun> {
  const handlers = tableOf(options);
  const flow = parse(manifest, handlers, options);
  const subFlows = (options.flows ?? []).map((each) => parse(each, handlers, options));
  const store = await openSqliteStore({ path: ':memory:' });
  try {
    return await runIn(store, flow, { ...options, table: handlers, subFlows });
  } finally {
    await store.close();
  }
}

function tableOf({ handlers = {}, egressAllow = [] }: RunFlowOptions): HandlerTable {
  const own = Object.entries(handlers).map(([type, given]) =>
    typeof given === 'function' ? stubOf(type, given) : given,
  );
  const replaced = new Set(Object.keys(handlers));
  return handlerTable([...builtInHandlers({ egressAllow }).filter(({ type }) => !replaced.has(type)), ...own]);
}

function stubOf(type: string, stub: Stub): StepHandler {
  return defineHandler({
    type,
    inputs: z.unknown(),
    secretInputs: ['headers.*', 'query.*', 'url'],
    run: async (context) => {
      const given = await stub(context as StepContext<Json>);
      return isResult(given) ? given : { kind: 'succeeded', output: given };
    },
  });
}

function isResult(given: Json | HandlerResult): given is HandlerResult {
  if (typeof given !== 'object' || given === null || !('kind' in given)) return false;
  return given.kind === 'succeeded' || given.kind === 'failed' || given.kind === 'waiting';
}

function parse(manifest: unknown, handlers: HandlerTable, options: RunFlowOptions): LoadedFlow {
  const text = typeof manifest === 'string' ? manifest : JSON.stringify(manifest);
  const rules = { handlers, readSecret: secretsOf(options), strict: false, checks: [], sealsSecrets: true };
  const { flow, issues } = readManifest(text, 'manifest.json', rules);
  // No delivery is judged here, so what a trigger verifies with need not be there.
  const isUnread = ({ path, message }: ManifestIssue) => message === NOT_GIVEN && /^triggers\b/i.test(path);
  const isWrong = issues.some((issue) => issue.severity === 'error' && !isUnread(issue));
  if (flow !== undefined && !isWrong) return flow;
  throw new Error(`The manifest cannot be run:\n${issues.map(formatIssue).join('\n')}`);
}

const NOT_GIVEN = 'is not among the secrets given';

function secretsOf({ secrets = {} }: RunFlowOptions) {
  return (reference: string) =>
    Object.hasOwn(secrets, reference) ? { value: secrets[reference] ?? '' } : { error: NOT_GIVEN };
}

async function runIn(
  store: Store,
  loaded: LoadedFlow,
  options: RunFlowOptions & { table: HandlerTable; subFlows: readonly LoadedFlow[] },
): Promise<TestedRun> {
  let now = (options.startAt ?? new Date()).getTime();
  const clock = { now: () => now, monotonic: () => now };
  const logger = pino({ level: 'silent' });
  const report = createReport({ logger, metrics: createMetrics() });
  const catalog = createCatalog(store, clock);
  for (const flow of options.subFlows) await catalog.deploy(flow);
  const deployed = await catalog.deploy(loaded);
  const engine = createEngine({
    store,
    catalog,
    acceptanceLimits: { admit: () => undefined },
    dispatcher: { nudge: () => {}, reserve: () => undefined, started: () => {} },
    clock,
    newId,
    report,
    refresh: async () => {},
  });
  const leases = createLeases({ store, clock, logger });
  const random = () => 0.5;
  const runStep = createRunStep({
    store,
    catalog,
    clock,
    logger,
    random,
    handlers: options.table,
    readSecret: secretsOf(options),
  });
  const attempt = createAttempt({ store, runStep, clock, logger, report, random });

  const triggers = loaded.manifest.triggers;
  const key = options.trigger ?? Object.keys(triggers)[0] ?? 'manual';
  const body = options.body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(options.body));
  const run = engine.planRun({
    runId: newId(),
    flow: deployed,
    triggerType: triggers[key]?.type ?? 'manual',
    at: now,
    trigger: { key, body, contentType: 'application/json', headers: lowerCase(options.headers ?? {}) },
    deliveryId: null,
    sourceRunId: null,
    traceparent: null,
  });
  await store.accept({ run });
  const signals = Object.entries(options.signals ?? {});
  for (;;) {
    const leasedUntil = now + 60_000;
    const overdue = await store.claimOverdue({ owner: SOLE_OWNER, now, leasedUntil, limit: 16 });
    const due = await store.claimDue({ owner: SOLE_OWNER, now, leasedUntil, limit: 16 });
    const claims = [...overdue.claims, ...due.claims];
    const times = [overdue.nextAt, due.nextDueAt].filter((at) => at !== null);
    const nextDueAt = times.length === 0 ? null : Math.min(...times);
    await Promise.all(claims.map((claim) => attempt(leases.hold(claim, leasedUntil))));
    if (claims.length > 0) continue;
    const signal = signals.shift();
    if (signal !== undefined) await store.deliverSignal({ runId: run.id, name: signal[0], body: signal[1], at: now });
    else if (nextDueAt === null || (await isOver(store, run.id))) return read(store, run.id);
    else now = Math.max(now, nextDueAt);
  }
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

async function isOver(store: Store, runId: string): Promise<boolean> {
  return (await store.findRun(runId))?.status !== 'Running';
}

async function read(store: Store, runId: string): Promise<TestedRun> {
  const [run, steps, lineage] = await Promise.all([
    store.findRun(runId),
    store.listSteps(runId),
    store.findLineage(runId),
  ]);
  if (run === undefined) throw new Error('the run is not in the store');
  const started = lineage?.derived.filter(({ triggerType }) => triggerType === 'flow') ?? [];
  return {
    ...run,
    steps: Object.fromEntries((steps ?? []).map((step) => [step.stepKey, step])),
    subRuns: await Promise.all(started.map(({ id }) => read(store, id))),
  };
}
