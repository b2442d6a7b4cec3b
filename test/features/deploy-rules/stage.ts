import pino from 'pino';
import { z } from 'zod';
import { stepTypes } from '../../../src/config/steps.ts';
import { createAttempt } from '../../../src/flows/attempt.ts';
import { type Catalog, createCatalog } from '../../../src/flows/catalog.ts';
import { createEngine } from '../../../src/flows/engine.ts';
import { defineHandler, type StepHandler } from '../../../src/flows/handlers/handler.ts';
import { handlerTable } from '../../../src/flows/handlers/index.ts';
import { createLeases } from '../../../src/flows/leases.ts';
import { createReport } from '../../../src/flows/report.ts';
import { createRunStep } from '../../../src/flows/run-step.ts';
import { type LoadedFlow, parseManifest } from '../../../src/manifest/load.ts';
import { createIdSource } from '../../../src/model/ids.ts';
import type { Json } from '../../../src/model/json.ts';
import { openSqliteStore } from '../../../src/store/sqlite/client.ts';
import { createMetrics } from '../../../src/telemetry/metrics.ts';
import { endLater } from '../../ending.ts';

/** What a run did: every call of a handler in order, then how each step and the run ended. */
export interface Performance {
  /** `key Type`, once for each call. */
  readonly calls: readonly string[];
  /** Status by step key. */
  readonly steps: Readonly<Record<string, string>>;
  readonly status: string;
  /** Error code of the failed steps, by step key. */
  readonly errors: Readonly<Record<string, string>>;
  /** Recorded input by step key. */
  readonly inputs: Readonly<Record<string, Json>>;
}

/** Runs old manifests, deploys new ones in between, and lets the runs finish. */
export interface Stage {
  load(manifest: object): LoadedFlow;
  /**
   * Runs `before` and, after so many attempts, deploys `after`. `betweenClaimAndStart` deploys when the next step is
   * already claimed. Without `after`, nothing is deployed.
   */
  perform(play: {
    before: object;
    after?: object;
    attempts?: number;
    betweenClaimAndStart?: boolean;
  }): Promise<Performance>;
  /** Runs a run that starts after the deploy. */
  performNext(before: object, after: object): Promise<Performance>;
}

/** What no deploy may change: runs in flight take only inputs from the newest revision. */
export function whatRan({ calls, steps, status }: Performance): Pick<Performance, 'calls' | 'steps' | 'status'> {
  return { calls, steps, status };
}

const signalName = 'go';

/** A store in memory, a clock that jumps, and the engine's own parts. */
export async function openStage(): Promise<Stage> {
  const store = await openSqliteStore({ path: ':memory:' });
  endLater(() => store.close());
  let now = Date.parse('2026-03-01T12:00:00Z');
  let flows = 0;
  const calls: string[] = [];
  const clock = { now: () => now, monotonic: () => now };
  const logger = pino({ level: 'silent' });
  const report = createReport({ logger, metrics: createMetrics() });
  const handlers = handlerTable([...stepTypes().handlers, flaky, call].map((each) => recording(each, calls)));
  const readSecret = (reference: string) => ({ value: `what ${reference} stands for` });
  const newId = createIdSource();
  const nextId = () => {
    flows += 1;
    return `00000000-0000-4000-8000-${String(flows).padStart(12, '0')}`;
  };

  const load = (manifest: object, id = '00000000-0000-4000-8000-000000000000'): LoadedFlow => {
    const text = JSON.stringify({ name: 'Stage', version: '1', ...manifest, id });
    const { flow, issues } = parseManifest(text, 'stage.json', { handlers, readSecret, strict: false, checks: [] });
    if (flow === undefined) throw new Error(issues.map(({ path, message }) => `${path}: ${message}`).join('\n'));
    return flow;
  };
  const start = async (catalog: Catalog, loaded: LoadedFlow) => {
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
    const flow = catalog.find(loaded.manifest.id) ?? (await catalog.deploy(loaded));
    const trigger = { key: 'manual', body: Buffer.from('{}'), contentType: 'application/json', headers: {} };
    const origin = { deliveryId: null, sourceRunId: null, traceparent: null, triggerType: 'manual' } as const;
    const run = engine.planRun({ runId: newId(), flow, at: now, trigger, ...origin });
    await store.accept({ run });
    return run.id;
  };
  const finish = async (
    runId: string,
    catalog: Catalog,
    deploy: { at: number; isLate: boolean; run: () => Promise<unknown> } | undefined,
  ): Promise<Performance> => {
    const leases = createLeases({ store, clock, logger });
    const services = { store, catalog, clock, logger, random: () => 0.5, handlers, readSecret };
    const attempt = createAttempt({
      store,
      runStep: createRunStep(services),
      clock,
      logger,
      report,
      random: () => 0.5,
    });
    let isSignalled = false;
    for (let attempts = 0; ; attempts += 1) {
      if (deploy?.at === attempts && !deploy.isLate) await deploy.run();
      let claim: Awaited<ReturnType<typeof store.claimDue>>['claims'][number] | undefined;
      for (;;) {
        const batch = await store.claimDue({ owner: 'me', now, leasedUntil: now + 60_000, limit: 1 });
        [claim] = batch.claims;
        if (claim !== undefined) break;
        if (batch.nextDueAt !== null) now = Math.max(now, batch.nextDueAt);
        else if (isSignalled) return read(runId);
        else {
          isSignalled = true;
          await store.deliverSignal({ runId, name: signalName, body: null, at: now });
        }
      }
      if (deploy?.at === attempts && deploy.isLate) await deploy.run();
      await attempt(leases.hold(claim, now + 60_000));
    }
  };
  const read = async (runId: string): Promise<Performance> => {
    const steps = (await store.listSteps(runId)) ?? [];
    const run = await store.findRun(runId);
    return {
      calls: calls.splice(0),
      steps: Object.fromEntries(steps.map(({ stepKey, stepType, status }) => [stepKey, `${status} ${stepType}`])),
      status: run?.status ?? 'unknown',
      errors: Object.fromEntries(
        steps.flatMap(({ stepKey, error }) => (error === null ? [] : [[stepKey, error.code]])),
      ),
      inputs: Object.fromEntries(steps.map(({ stepKey, input }) => [stepKey, input])),
    };
  };

  return {
    load,
    async perform({ before, after, attempts = 0, betweenClaimAndStart = false }) {
      const id = nextId();
      const catalog = createCatalog(store, clock);
      const runId = await start(catalog, load(before, id));
      const deploy =
        after === undefined
          ? undefined
          : { at: attempts, isLate: betweenClaimAndStart, run: () => catalog.deploy(load(after, id)) };
      return finish(runId, catalog, deploy);
    },
    async performNext(before, after) {
      const id = nextId();
      const catalog = createCatalog(store, clock);
      await catalog.deploy(load(before, id));
      await catalog.deploy(load(after, id));
      return finish(await start(catalog, load(after, id)), catalog, undefined);
    },
  };
}

/** Fails at its first attempt. */
const flaky = defineHandler({
  type: 'Flaky',
  inputs: z.unknown(),
  run: ({ attempt }) =>
    attempt === 1
      ? { kind: 'failed', code: 'flaky', message: 'not yet', retryable: true }
      : { kind: 'succeeded', output: null },
});

/** Needs a secret. */
const call = defineHandler({
  type: 'Call',
  inputs: z.strictObject({ token: z.string() }),
  secretInputs: ['token'],
  run: () => ({ kind: 'succeeded', output: null }),
});

function recording(handler: StepHandler, calls: string[]): StepHandler {
  return {
    ...handler,
    run: (context) => {
      calls.push(`${context.stepKey} ${handler.type}`);
      return handler.run(context);
    },
  };
}
