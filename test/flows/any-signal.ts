import fc from 'fast-check';
import { expect } from 'vitest';
import { z } from 'zod';
import { stepTypes } from '../../src/config/steps.ts';
import { runsStore } from '../../src/features/runs/store.ts';
import { createCatalog } from '../../src/flows/catalog.ts';
import { defineHandler } from '../../src/flows/handlers/handler.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { Lease } from '../../src/flows/leases.ts';
import { createRunStep, type RunStep } from '../../src/flows/run-step.ts';
import type { Json } from '../../src/model/json.ts';
import type { Graph } from '../../src/model/manifest.ts';
import type { Claim, Store } from '../../src/store/store.ts';
import { aRun, minute } from '../store/samples.ts';
import { type FakeClock, FLOW_ID, fakeClock, loadedFlow, manifestOf, recordingLogger, stepOf } from './fixture.ts';

/** Waits for two signals of the same name, with a timeout between them, and fails as often as its inputs say. */
const twice = defineHandler({
  type: 'Twice',
  inputs: z.strictObject({ signalName: z.string(), failures: z.number() }),
  run: ({ inputs: { signalName, failures }, attempt, resumed, now }) => {
    const got = Array.isArray(resumed?.state) ? (resumed.state as readonly Json[]) : [];
    const all = resumed?.signal ? [...got, resumed.signal.body] : got;
    if (all.length > 0 && attempt <= failures) {
      return { kind: 'failed', code: 'down', message: 'is down', retryable: true };
    }
    if (all.length >= 2) return { kind: 'succeeded', output: all };
    return { kind: 'waiting', signalName, until: now() + 40, state: all };
  },
});

const NAMES = ['go', 'stop'] as const;
const anyWait = fc.record({
  signalName: fc.constantFrom(...NAMES),
  isTwice: fc.constantFrom(true, false, false),
  failures: fc.nat(2),
  maxAttempts: fc.constantFrom(1, 1, 3),
  limitMs: fc.constantFrom(undefined, 30, 30, 100),
  ownLimitMs: fc.constantFrom(undefined, 50),
  isAfterLast: fc.boolean(),
});
type AnyWait = typeof anyWait extends fc.Arbitrary<infer T> ? T : never;

/** Waiting steps, in sequence or parallel, in a loop or not, and the events; each number decides one event. */
export const anySignalStory = fc.tuple(
  fc.array(anyWait, { minLength: 1, maxLength: 3 }),
  fc.boolean(),
  fc.array(fc.nat(999), { minLength: 20, maxLength: 80, size: 'max' }),
);

function graphOf(waits: readonly AnyWait[], isLoop: boolean): Graph {
  const steps = Object.fromEntries(
    waits.map(({ signalName, isTwice, failures, maxAttempts, limitMs, ownLimitMs, isAfterLast }, index) => {
      const retry = { maxAttempts, backoffSeconds: 0.02, factor: 1, maxBackoffSeconds: 1, jitter: false };
      const own = ownLimitMs === undefined ? {} : { timeoutSeconds: ownLimitMs / 1000 };
      const limit = limitMs === undefined ? {} : { timeoutSeconds: limitMs / 1000 };
      const runAfter = isAfterLast && index > 0 ? { [`s${index - 1}`]: { statuses: ['Succeeded', 'Failed'] } } : {};
      const inputs = isTwice ? { signalName, failures } : { signalName, ...own };
      const type = isTwice ? 'Twice' : 'WaitForSignal';
      return [`s${index}`, stepOf(type, { inputs, retry, runAfter: runAfter as Graph[string]['runAfter'], ...limit })];
    }),
  );
  return isLoop ? { each: stepOf('ForEach', { forEach: [1, 2], concurrencyLimit: 2, steps }) } : steps;
}

/** A signal, with the step that got it, or none. */
interface Sent {
  readonly body: number;
  readonly name: string;
  readonly stepKey: string | null;
}

/** Plays a story with a real store and real handlers; each signal must be where its answer said. */
export async function liveWithSignals(
  store: Store,
  runId: string,
  [waits, isLoop, decisions]: readonly [readonly AnyWait[], boolean, readonly number[]],
): Promise<void> {
  const clock = fakeClock();
  const catalog = createCatalog(store, clock);
  const handlers = [...stepTypes().handlers, twice];
  const graph = graphOf(waits, isLoop);
  const { record } = await catalog.deploy(loadedFlow(manifestOf(graph), handlers));
  const runStep = createRunStep({
    store,
    catalog,
    clock,
    logger: recordingLogger().logger,
    random: () => 0.5,
    handlers: handlerTable(handlers),
    readSecret: () => ({ error: 'there are no secrets' }),
  });
  const entries = Object.entries(graph).filter(([, { runAfter }]) => Object.keys(runAfter).length === 0);
  const steps = entries.map(([stepKey, { type }]) => ({ stepKey, stepType: type, dueAt: clock.now() }));
  const flow = { flowId: FLOW_ID, revision: record.revision, startedAt: clock.now(), triggerKey: 'manual' };
  await store.accept({ run: aRun({ id: runId, steps, ...flow }) });
  const story = new Story({ store, clock, runStep, runId });
  await story.begin();
  for (const decision of decisions) await story.happens(decision);
  await story.finish();
}

class Story {
  readonly #with: { store: Store; clock: FakeClock; runStep: RunStep; runId: string };
  readonly #sent: Sent[] = [];
  readonly #told: string[] = [];
  #held: Claim[] = [];
  #isCancelled = false;

  constructor(given: { store: Store; clock: FakeClock; runStep: RunStep; runId: string }) {
    this.#with = given;
  }

  /** In most stories, something waits before the first signal comes. */
  async begin(): Promise<void> {
    for (let round = 0; round < 2; round += 1) {
      await this.#claim(100);
      while (this.#held.length > 0) await this.#work(0);
    }
  }

  async happens(decision: number): Promise<void> {
    const { store, clock, runId } = this.#with;
    const kind = decision % 20;
    const pick = Math.floor(decision / 20);
    if (kind < 4) await this.#claim(1 + (pick % 3));
    else if (kind < 11) await this.#work(pick);
    else if (kind < 13) await this.#signal(NAMES[pick % 2] ?? 'go');
    else if (kind < 16) clock.pass(pick * 2);
    else if (kind === 16) await this.#kill();
    else if (kind < 19) await this.#retry(pick);
    else if (pick % 12 === 0) {
      this.#told.push('cancel');
      this.#isCancelled ||= (await store.cancelRun({ runId, reason: null, at: clock.now() })).kind === 'accepted';
    }
    await this.#check();
  }

  /** Continues beyond every limit and back-off; then every delivered signal must have been used. */
  async finish(): Promise<void> {
    const { store, clock, runId } = this.#with;
    for (let round = 0; round < 8; round += 1) {
      await this.#claim(100);
      while (this.#held.length > 0) await this.#work(0);
      clock.pass(200);
    }
    await this.#check();
    const steps = new Map((await store.listSteps(runId))?.map((step) => [step.stepKey, step]));
    for (const { body, name, stepKey } of this.#sent) {
      const at = stepKey === null ? undefined : steps.get(stepKey);
      // A signal may remain unused if its run was cancelled, or if its step failed in spite of it.
      if (this.#isCancelled || at?.status === 'Failed' || at?.status === 'Pending') continue;
      if (at !== undefined) expect([at.output].flat(), this.#story(`${name} ${body}`)).toContain(body);
    }
    await store.cancelRun({ runId, reason: null, at: clock.now() });
  }

  /** Rules that hold at any time. */
  async #check(): Promise<void> {
    const { store, runId } = this.#with;
    const steps = (await store.listSteps(runId)) ?? [];
    const ends = steps.filter(({ status, stepType }) => status === 'Succeeded' && stepType !== 'ForEach');
    const outputs = ends.flatMap(({ output }) => [output].flat());
    expect(new Set(outputs).size, this.#story('each signal is gone on with once')).toBe(outputs.length);
    for (const body of outputs) expect(this.#sent.map((sent) => sent.body)).toContain(body);
    for (const { stepKey, status, error } of steps) {
      if (status !== 'Failed') continue;
      if (error?.code !== 'signal_timeout' && error?.code !== 'timeout') continue;
      // Twice fails with its first signal if the second does not come, and gets it again when retried.
      if (steps.find((step) => step.stepKey === stepKey)?.stepType === 'Twice') continue;
      const has = this.#sent.filter((sent) => sent.stepKey === stepKey);
      expect(has, this.#story(`${stepKey} failed although it had a signal`)).toEqual([]);
    }
    const free = (await store.of(runsStore).listSignals(runId)).filter((signal) => signal.stepKey === null);
    for (const step of await store.outlineSteps(
      runId,
      steps.map(({ stepKey }) => stepKey),
    )) {
      const isLeft = 'signalName' in step && free.some(({ name }) => name === step.signalName);
      expect(isLeft, this.#story('a step waits beside a signal that nobody has')).toBe(false);
    }
  }

  async #claim(limit: number): Promise<void> {
    const { store, clock } = this.#with;
    const { claims } = await store.claimDue({
      owner: 'me',
      now: clock.now(),
      leasedUntil: clock.now() + minute,
      limit,
    });
    for (const claim of claims)
      this.#told.push(`claim ${claim.stepKey} ${claim.attempt} ${JSON.stringify(claim.resumed)}`);
    this.#held.push(...claims);
  }

  async #work(pick: number): Promise<void> {
    const { store, clock, runStep } = this.#with;
    const claim = this.#held[pick % Math.max(1, this.#held.length)];
    if (claim === undefined) return;
    this.#held = this.#held.filter((each) => each !== claim);
    const { token, runId, stepKey } = claim;
    const stopped = {
      input: null,
      result: { kind: 'failed', error: { code: 'cancelled', message: '', retryable: false } },
    } as const;
    const ran = claim.stop === null ? await runStep(claim, new Lease(claim, 0)) : stopped;
    if (ran === undefined) throw new Error('nothing aborted it');
    this.#told.push(`end ${stepKey} ${JSON.stringify(ran.result)} at ${clock.monotonic()}`);
    await store.advance({ token, runId, stepKey, at: clock.now(), ...ran });
  }

  async #signal(name: string): Promise<void> {
    const { store, clock, runId } = this.#with;
    const body = this.#sent.length + 1;
    const result = await store.deliverSignal({ runId, name, body, at: clock.now() });
    this.#told.push(`signal ${name} ${body}: ${JSON.stringify(result)}`);
    if (result.kind === 'accepted') this.#sent.push({ body, name, stepKey: result.stepKey });
    if (this.#isCancelled) expect(result.kind).toBe('ended');
  }

  async #kill(): Promise<void> {
    const { store, clock } = this.#with;
    this.#told.push('kill');
    this.#held = [];
    await store.recover({ owner: 'me', now: clock.now() });
  }

  async #retry(pick: number): Promise<void> {
    const { store, clock, runId } = this.#with;
    const failed = ((await store.listSteps(runId)) ?? []).filter(({ status }) => status === 'Failed');
    const step = failed[pick % Math.max(1, failed.length)];
    if (step === undefined) return;
    const { kind } = await store.retryStep({ runId, stepKey: step.stepKey, at: clock.now() });
    this.#told.push(`retry ${step.stepKey}: ${kind}`);
  }

  #story(what: string): string {
    return [what, ...this.#told].join('\n');
  }
}
