import fc from 'fast-check';
import { expect } from 'vitest';
import { runsStore } from '../../src/features/runs/store.ts';
import type { Graph, StepDefinition, StepStatus } from '../../src/model/manifest.ts';
import type { Claim, StepResult, Store } from '../../src/store/store.ts';
import { aRun, deployOf, id, minute, T0 } from '../store/samples.ts';
import { RunModel } from './run-model.ts';

/** Failure handlers are as frequent as all other edges together. */
const anyStatuses = fc.oneof(
  fc.constant<StepStatus[]>(['Failed']),
  fc.subarray<StepStatus>(['Succeeded', 'Failed', 'Skipped'], { minLength: 1 }),
);
const anyEdge = fc.tuple(fc.nat(4), anyStatuses);
/** Every other step is a loop, with loops inside loops. Steps run after earlier ones. */
const graphOf = (depth: number): fc.Arbitrary<Graph> => {
  const steps = depth === 0 ? fc.constant(undefined) : fc.oneof(fc.constant(undefined), graphOf(depth - 1));
  return fc
    .array(fc.record({ edges: fc.array(anyEdge, { maxLength: 2, size: 'max' }), steps }), {
      minLength: 1,
      maxLength: 2 + depth,
      size: 'max',
    })
    .map((all) => Object.fromEntries(all.map((step, index) => [`s${index}`, stepOf(step.edges, index, step.steps)])));
};

function stepOf(edges: readonly [number, StepStatus[]][], index: number, steps: Graph | undefined): StepDefinition {
  const earlier = index === 0 ? [] : edges;
  const runAfter = Object.fromEntries(earlier.map(([upstream, statuses]) => [`s${upstream % index}`, { statuses }]));
  if (steps === undefined) return { type: 'NoOp', inputs: {}, runAfter };
  return { type: 'ForEach', inputs: {}, runAfter, steps };
}

/** A graph and the events of its run; each number decides one event. */
export const anyStory = fc.tuple(
  graphOf(2),
  fc.array(fc.nat(999), { minLength: 20, maxLength: 80, size: 'max' }),
  fc.nat(999),
);

/** Plays a story with a store, and compares the stored data with the model after each event. */
export async function live(
  store: Store,
  number: number,
  [graph, decisions, ending]: readonly [Graph, readonly number[], number],
): Promise<void> {
  const deploy = deployOf(graph, { hash: `${number}` });
  const { revision } = await store.deployFlow(deploy);
  const model = new RunModel(graph);
  const runId = id(number);
  const steps = [...model.rows.keys()].map((stepKey) => ({ stepKey, stepType: graph[stepKey]?.type ?? '', dueAt: T0 }));
  await store.accept({ run: aRun({ id: runId, revision, steps }) });
  const story = new Story(store, model, graph, runId);
  try {
    for (const decision of decisions) {
      await story.happens(decision);
      await story.check();
    }
    // Whatever happened before, the run ends by itself, or as soon as it is cancelled.
    if (ending % 3 === 0) await story.cancel();
    await story.finish();
    await story.check();
    expect((await store.findRun(runId))?.status).not.toBe('Running');
  } finally {
    await clear(store, runId);
  }
}

/** Leaves nothing due for the next story, however this one ended. */
async function clear(store: Store, runId: string): Promise<void> {
  const at = T0 + 1000 * minute;
  await store.cancelRun({ runId, reason: null, at });
  const result: StepResult = { kind: 'failed', error: { code: 'cleared', message: '', retryable: false } };
  for (;;) {
    const { claims } = await store.claimDue({ owner: 'me', now: at, leasedUntil: at + minute, limit: 1000 });
    for (const { token, stepKey } of claims) await store.advance({ token, runId, stepKey, at, input: null, result });
    if (claims.length === 0) return;
  }
}

class Story {
  readonly #store: Store;
  readonly #model: RunModel;
  readonly #graph: Graph;
  readonly #runId: string;
  #held: Claim[] = [];
  #now = T0;
  #told: string[] = [];

  constructor(store: Store, model: RunModel, graph: Graph, runId: string) {
    this.#store = store;
    this.#model = model;
    this.#graph = graph;
    this.#runId = runId;
  }

  async happens(decision: number): Promise<void> {
    const kind = decision % 20;
    const pick = Math.floor(decision / 20);
    this.#now += 1;
    if (kind < 5) await this.#claim(1 + (pick % 3));
    else if (kind < 13) await this.#end(pick);
    else if (kind < 17) await this.#retry(pick);
    else if (kind === 17) await this.#signal();
    else if (kind === 18) await this.#kill();
    else if (pick % 20 === 0) await this.cancel();
  }

  async check(): Promise<void> {
    const [run, rows, loops] = await Promise.all([
      this.#store.findRun(this.#runId),
      this.#store.listSteps(this.#runId),
      this.#store.of(runsStore).listLoops(this.#runId),
    ]);
    const statusOf = (status: StepStatus) => (status === 'Pending' || status === 'Running' ? 'Open' : status);
    const kept = {
      run: run?.status,
      steps: Object.fromEntries(
        (rows ?? []).map(({ stepKey, status, output }) => [stepKey, [statusOf(status), output]]),
      ),
      loops: Object.fromEntries(loops.map(({ stepKey, ...counts }) => [stepKey, counts])),
    };
    const model = this.#model;
    // A cancelled run plans nothing more, so its iterations are no longer counted.
    const counted = model.isCancelled ? kept.loops : undefined;
    expect(kept, this.#told.join('\n')).toEqual({
      run: model.status,
      steps: Object.fromEntries([...model.rows].map(([key, { status, output }]) => [key, [status, output]])),
      loops: counted ?? Object.fromEntries([...model.loops.keys()].map((key) => [key, model.counts(key)])),
    });
  }

  async cancel(): Promise<void> {
    const isOver = this.#model.status !== 'Running';
    this.#told.push('cancel');
    const { kind } = await this.#store.cancelRun({ runId: this.#runId, reason: null, at: this.#now });
    expect(kind).toBe(isOver ? 'ended' : 'accepted');
    if (!isOver) this.#model.cancel();
  }

  /** Ends all steps with success until none is left. */
  async finish(): Promise<void> {
    for (;;) {
      this.#now += 1;
      await this.#claim(100);
      if (this.#held.length > 0) await this.#end(2);
      else if (this.#model.waiting.size > 0) await this.#signal();
      else return;
    }
  }

  async #claim(limit: number): Promise<void> {
    const { claims } = await this.#store.claimDue({
      owner: 'me',
      now: this.#now,
      leasedUntil: this.#now + minute,
      limit,
    });
    for (const claim of claims) {
      this.#told.push(`claim ${claim.stepKey}`);
      this.#model.claimed(claim.stepKey);
      this.#held.push(claim);
    }
  }

  async #end(pick: number): Promise<void> {
    const [claim] = this.#held.splice(pick % Math.max(1, this.#held.length), 1);
    if (claim === undefined) return;
    const { stepKey, token } = claim;
    const result = this.#resultOf(claim, pick);
    this.#told.push(`${stepKey}: ${JSON.stringify(result)}`);
    const outcome = { token, runId: this.#runId, stepKey, at: this.#now, input: null, result };
    expect(await this.#store.advance(outcome), this.#told.join('\n')).toBeDefined();
    const model = this.#model;
    if (result.kind === 'loop') model.looped(stepKey, result.items.length, result.concurrency);
    else if (result.kind === 'waiting') model.waits(stepKey);
    else if (result.kind === 'succeeded') model.ended(stepKey, 'Succeeded', result.output);
    else model.ended(stepKey, 'Failed', null);
  }

  #resultOf({ stepKey, resumed }: Claim, pick: number): StepResult {
    const names = stepKey.split('.').filter((_, index) => index % 2 === 0);
    const step = names.reduce((found: StepDefinition | undefined, name, depth) => {
      const graph = depth === 0 ? this.#graph : found?.steps;
      return graph?.[name];
    }, undefined);
    if (pick % 11 === 0) return { kind: 'failed', error: { code: 'broken', message: 'no', retryable: false } };
    if (step?.steps !== undefined) {
      const items = Array.from({ length: pick % 4 }, (_, index) => index);
      return { kind: 'loop', items, concurrency: 1 + (pick % 3) };
    }
    if (pick % 7 === 3 && resumed === null) return { kind: 'waiting', state: null, dueAt: null, signalName: 'go' };
    if (pick % 5 > 2) return { kind: 'failed', error: { code: 'broken', message: 'no', retryable: false } };
    return { kind: 'succeeded', output: this.#now };
  }

  async #retry(pick: number): Promise<void> {
    const failed = [...this.#model.rows].filter(([, { status }]) => status === 'Failed').map(([key]) => key);
    // Mostly inside loops, where most can go wrong.
    const inner = failed.filter((key) => key.includes('.'));
    const chosen = inner.length > 0 && pick % 3 > 0 ? inner : failed;
    const keys = chosen.length === 0 ? [...this.#model.rows.keys()] : chosen;
    const stepKey = keys[pick % keys.length] ?? '';
    const result = await this.#store.retryStep({ runId: this.#runId, stepKey, at: this.#now });
    this.#told.push(`retry ${stepKey}: ${JSON.stringify(result)}`);
    const expected = this.#model.retry(stepKey);
    const told = result.kind === 'accepted' ? [...result.steps].sort() : result.kind;
    expect(told, this.#told.join('\n')).toEqual(typeof expected === 'string' ? expected : [...expected].sort());
  }

  async #signal(): Promise<void> {
    if (this.#model.waiting.size === 0) return;
    const signal = { runId: this.#runId, name: 'go', body: null, at: this.#now };
    const result = await this.#store.deliverSignal(signal);
    this.#told.push(`signal: ${JSON.stringify(result)}`);
    // If no step waits for this one, all were woken earlier.
    if (result.kind === 'accepted') expect([...this.#model.waiting]).toContain(result.stepKey);
  }

  /** The process dies with its claims; the next one takes over. */
  async #kill(): Promise<void> {
    this.#told.push('kill');
    this.#held = [];
    // No lease of the run is left, so a cancel ends it at once.
    this.#model.leased.clear();
    await this.#store.recover({ owner: 'me', now: this.#now });
  }
}
