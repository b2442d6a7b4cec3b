import fc from 'fast-check';
import { expect } from 'vitest';
import { orderStore } from '../../src/features/order/store.ts';
import type { Claim, StepResult, Store } from '../../src/store/store.ts';
import { aRun, claimAll, failed, finish, graphOf, id, succeeded, T0 } from './samples.ts';
import { deploy } from './sub-run-samples.ts';

/** Events in the runs of two flows; each number decides one event. */
export const anyOrderStory = fc.array(fc.nat(9_999), { minLength: 20, maxLength: 80, size: 'max' });

const FLOWS = [
  { id: '6f2b1c1e-aaaa-4222-8333-444455556666', onFailure: 'continue' },
  { id: '6f2b1c1e-bbbb-4222-8333-444455556666', onFailure: 'stop' },
] as const;

export async function deployOrderedFlows(store: Store): Promise<void> {
  for (const { id: flowId, onFailure } of FLOWS) {
    const order = { serialize: 'trigger.body.key', serializeOnFailure: onFailure };
    await deploy(store, flowId, { steps: graphOf({ first: [] }), ...order } as Parameters<typeof deploy>[2]);
  }
}

interface Known {
  readonly runId: string;
  readonly lane: string;
  /** Whether its failure holds its lane. */
  readonly holds: boolean;
  status: 'Running' | 'Succeeded' | 'Failed' | 'Cancelled';
  claim: Claim | undefined;
}

/** Plays a story with a real store; which runs run and which wait must agree with simple queues. */
export async function liveInOrder(store: Store, from: number, decisions: readonly number[]): Promise<void> {
  const story = new Story(store, from);
  for (const decision of decisions) {
    await story.happens(decision);
    await story.look();
  }
  await story.finish();
}

class Story {
  readonly #store: Store;
  readonly #from: number;
  readonly #runs: Known[] = [];
  /** Runs by lane: the first is running, or has failed and holds the lane. */
  readonly #lanes = new Map<string, Known[]>();
  readonly #told: string[] = [];

  constructor(store: Store, from: number) {
    this.#store = store;
    this.#from = from;
  }

  async happens(decision: number): Promise<void> {
    const kind = decision % 16;
    const pick = Math.floor(decision / 16);
    if (kind < 6) await this.#start(pick);
    else if (kind < 9) await this.#end(pick, succeeded());
    else if (kind < 11) await this.#end(pick, failed());
    else if (kind < 13) await this.#cancel(pick);
    else if (kind < 15) await this.#retry(pick);
    else await this.#release(pick);
  }

  /** Exactly the first run of each lane can be claimed. */
  async look(): Promise<void> {
    for (const claim of await claimAll(this.#store)) {
      const run = this.#runs.find(({ runId }) => runId === claim.runId);
      if (run === undefined || run.claim !== undefined) throw new Error(`${claim.runId} was claimed: ${this.#story}`);
      run.claim = claim;
    }
    const claimed = this.#runs.filter(({ claim }) => claim !== undefined).map(({ runId }) => runId);
    const mayRun = this.#runs.filter((run) => this.#isFirst(run) && run.status === 'Running').map(({ runId }) => runId);
    expect(claimed, this.#story).toEqual(mayRun);
    const waiting = this.#runs.filter((run) => this.#laneOf(run).includes(run) && !this.#isFirst(run));
    const { waits } = await this.#store.describeRuns({
      running: this.#runs.filter(({ status }) => status === 'Running').map(({ runId }) => runId),
      ended: [],
      dueBefore: T0 - 1,
    });
    expect(Object.fromEntries(waits.map(({ runId, kind, awaitedRunId }) => [runId, [kind, awaitedRunId]]))).toEqual(
      Object.fromEntries(waiting.map((run) => [run.runId, ['order', this.#before(run)?.runId]])),
    );
  }

  /** Everything can end. */
  async finish(): Promise<void> {
    for (let left = this.#runs.length * 2; left > 0 && [...this.#lanes.values()].flat().length > 0; left -= 1) {
      await this.#release(0);
      await this.look();
      await this.#end(0, succeeded());
      await this.look();
    }
    expect([...this.#lanes.values()].flat(), this.#story).toEqual([]);
    expect((await this.#store.of(orderStore).reportOrders({ since: 0 })).stopped).toEqual([]);
    for (const { runId, status } of this.#runs) expect(await this.#store.findRun(runId)).toMatchObject({ status });
  }

  get #story(): string {
    return this.#told.join(', ');
  }

  async #start(pick: number): Promise<void> {
    const flow = FLOWS[pick % 2] ?? FLOWS[0];
    const isTrusted = pick % 3 > 0;
    const key = pick % 5 === 0 ? null : `key ${pick % 5 < 3 ? 1 : 2}`;
    const runId = id(this.#from + this.#runs.length);
    const lane = `${this.#from} ${flow.id} ${isTrusted} ${key}`;
    const run: Known = {
      runId,
      lane,
      holds: flow.onFailure === 'stop' && isTrusted,
      status: 'Running',
      claim: undefined,
    };
    this.#told.push(`start ${runId.slice(-4)} in ${lane}`);
    // Each story has its own keys, because only keys distinguish lanes.
    const order = { key: `${this.#from} ${key}`, problem: null, isTrusted };
    await this.#store.accept({ run: aRun({ id: runId, flowId: flow.id, order }) });
    this.#runs.push(run);
    this.#lanes.set(lane, [...this.#laneOf(run), run]);
  }

  async #end(pick: number, result: StepResult): Promise<void> {
    const run = this.#one(({ claim }) => claim !== undefined, pick);
    if (run?.claim === undefined) return;
    this.#told.push(`${result.kind} ${run.runId.slice(-4)}`);
    await finish(this.#store, run.claim, result);
    run.claim = undefined;
    run.status = result.kind === 'failed' ? 'Failed' : 'Succeeded';
    if (run.status === 'Succeeded' || !run.holds) this.#leave(run);
  }

  async #cancel(pick: number): Promise<void> {
    const run = this.#one(({ status }) => status === 'Running', pick);
    if (run === undefined) return;
    this.#told.push(`cancel ${run.runId.slice(-4)}`);
    await this.#store.cancelRun({ runId: run.runId, reason: null, at: T0 });
    if (run.claim !== undefined) await finish(this.#store, run.claim, failed());
    run.claim = undefined;
    run.status = 'Cancelled';
    this.#leave(run);
  }

  async #retry(pick: number): Promise<void> {
    const run = this.#one(({ status }) => status === 'Failed', pick);
    if (run === undefined) return;
    this.#told.push(`retry ${run.runId.slice(-4)}`);
    await this.#store.retryStep({ runId: run.runId, stepKey: 'first', at: T0 });
    run.status = 'Running';
    if (!this.#laneOf(run).includes(run)) this.#lanes.set(run.lane, [...this.#laneOf(run), run]);
  }

  async #release(pick: number): Promise<void> {
    const run = this.#one((each) => each.status === 'Failed' && this.#isFirst(each), pick);
    if (run === undefined) return;
    this.#told.push(`release ${run.runId.slice(-4)}`);
    expect(await this.#store.of(orderStore).releaseOrder({ runId: run.runId, at: T0 })).toMatchObject({
      kind: 'accepted',
    });
    this.#leave(run);
  }

  #one(isWanted: (run: Known) => boolean, pick: number): Known | undefined {
    const runs = this.#runs.filter(isWanted);
    return runs[pick % Math.max(1, runs.length)];
  }

  #laneOf({ lane }: Known): readonly Known[] {
    return this.#lanes.get(lane) ?? [];
  }

  #isFirst(run: Known): boolean {
    return this.#laneOf(run)[0] === run;
  }

  #before(run: Known): Known | undefined {
    const lane = this.#laneOf(run);
    return lane[lane.indexOf(run) - 1];
  }

  #leave(run: Known): void {
    this.#lanes.set(
      run.lane,
      this.#laneOf(run).filter((each) => each !== run),
    );
  }
}
