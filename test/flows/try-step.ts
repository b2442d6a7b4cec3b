import { afterAll, beforeAll } from 'vitest';
import { z } from 'zod';
import { createCatalog } from '../../src/flows/catalog.ts';
import { defineHandler, type HandlerResult, type StepContext } from '../../src/flows/handlers/handler.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import type { ServedHandler } from '../../src/flows/handlers/outside.ts';
import { Lease } from '../../src/flows/leases.ts';
import { createRunStep } from '../../src/flows/run-step.ts';
import type { JsonObject } from '../../src/model/json.ts';
import type { StepDefinition } from '../../src/model/manifest.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import type { Claim, RunInput, Store } from '../../src/store/store.ts';
import { FLOW_ID, fakeClock, loadedFlow, manifestOf, recordingLogger, START, stepOf } from './fixture.ts';

export const SECRET = 'p4ssw0rd-of-the-api';

/** A handler with `token`, or the given inputs, as secret inputs. */
export function handlerOf(run: (context: StepContext<JsonObject>) => unknown, secretInputs = ['token']): ServedHandler {
  return defineHandler({
    type: 'Own',
    inputs: z.looseObject({ count: z.number().optional() }),
    secretInputs,
    run: run as (context: StepContext) => HandlerResult,
  });
}

let store: Store;

/** One store for the tests of a file; call it once in each file that tries steps. */
export function useStore(): void {
  beforeAll(async () => {
    store = await openSqliteStore({ path: ':memory:' });
  });
  afterAll(() => store.close());
}

interface Given {
  readonly handler: ServedHandler;
  readonly step?: Partial<StepDefinition>;
  readonly claim?: Partial<Claim>;
  readonly runInput?: RunInput | Error;
  readonly lease?: Lease;
}

export const RUN_INPUT: RunInput = {
  startedAt: START,
  triggerType: 'webhook',
  trigger: {
    key: 'hook',
    body: Buffer.from('{"name":"Ada","ref":"env:TOKEN"}'),
    contentType: 'application/json',
    headers: { a: 'b' },
  },
  deliveries: [],
  steps: { first: { status: 'Succeeded', output: { n: 3 }, error: null } },
};

/** The first attempt at the step. */
export const CLAIM: Claim = {
  token: 't',
  runId: 'run-1',
  flowId: FLOW_ID,
  revision: 1,
  stepKey: 'only',
  stepType: 'Own',
  attempt: 1,
  interruptions: 0,
  loneDeaths: 0,
  aloneMs: null,
  triggerKey: 'hook',
  traceparent: null,
  dueAt: START,
  startedAt: START,
  attemptBase: 0,
  attemptStartedAt: START,
  resumed: null,
  loop: null,
  stop: null,
};

/** Tries a step of a deployed flow; only the run's input is given instead of read. */
export async function tryStep({ handler, step, claim, runInput = RUN_INPUT, lease = new Lease(CLAIM, 0) }: Given) {
  const clock = fakeClock();
  const catalog = createCatalog(store, clock);
  const { record } = await catalog.deploy(loadedFlow(manifestOf({ only: stepOf('Own', step) }), [handler]));
  let reads = 0;
  const log = recordingLogger();
  const services: Parameters<typeof createRunStep>[0] = {
    store: {
      readRunInput: async () => {
        reads += 1;
        if (runInput instanceof Error) throw runInput;
        return runInput;
      },
      findRun: async () => undefined,
      outlineSteps: async () => [],
    },
    catalog,
    handlers: handlerTable([handler]),
    readSecret: (reference) => (reference === 'env:TOKEN' ? { value: SECRET } : { error: 'the variable is not set' }),
    clock,
    logger: log.logger,
    random: () => 0.5,
  };
  const ran = await createRunStep(services)({ ...CLAIM, revision: record.revision, ...claim }, lease);
  return { ran, reads, log };
}

export const succeed = handlerOf(({ inputs }) => ({ kind: 'succeeded', output: inputs }));
export const fail = (more: object = {}) =>
  handlerOf(() => ({ kind: 'failed', code: 'down', message: 'is down', retryable: true, ...more }));
export const retry = { maxAttempts: 3, backoffSeconds: 2, factor: 3, maxBackoffSeconds: 60, jitter: false };
