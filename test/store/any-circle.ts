import fc from 'fast-check';
import { expect } from 'vitest';
import type { Graph } from '../../src/model/manifest.ts';
import type { Claim, Store } from '../../src/store/store.ts';
import { aRun, failed, finish, id, minute, succeeded, T0 } from './samples.ts';
import { asking, deploy, running } from './sub-run-samples.ts';

/** Events in the runs of flows that run each other; each number decides one event. */
export const anyCircleStory = fc.array(fc.nat(99_999), { minLength: 30, maxLength: 120, size: 'max' });

const FLOWS = [1, 2, 3].map((n) => `7a3c2d1e-${String(n).repeat(4)}-4222-8333-444455556666`);
const KEYS = 2;
/** Events at the same time, spread over the stores. */
const AT_ONCE = 4;

/** Flows that may all run each other: plans refuse them, but revisions pinned by runs can form such a circle. */
export async function deployCircles(store: Store): Promise<void> {
  const [own = '', ...others] = FLOWS;
  const never = { runAfter: { go: { statuses: ['Skipped'] } } };
  const rest = others.map((flow, at) => [`never ${at}`, { ...running(flow).go, ...never }] as const);
  const steps = { ...running(own), ...Object.fromEntries(rest) } as Graph;
  for (const flow of FLOWS) {
    await deploy(store, flow, { steps, serialize: 'trigger.body.key' } as Parameters<typeof deploy>[2]);
  }
}

/**
 * Plays a story, then lets every step succeed: all runs must end. Returns how many were kept from waiting for
 * themselves.
 */
export async function liveInCircles(stores: readonly Store[], from: number, decisions: readonly number[]) {
  const story = new Story(stores, from);
  for (let at = 0; at < decisions.length; at += AT_ONCE) {
    await story.claim();
    await Promise.all(decisions.slice(at, at + AT_ONCE).map((decision, place) => story.happens(decision, place)));
  }
  await story.finish();
  return story.refused;
}

class Story {
  refused = 0;
  readonly #stores: readonly Store[];
  readonly #from: number;
  readonly #told: string[] = [];
  readonly #known: string[] = [];
  #claims: Claim[] = [];
  #now: number;

  constructor(stores: readonly Store[], from: number) {
    this.#stores = stores;
    this.#from = from;
    this.#now = T0 + from * minute;
  }

  async claim(): Promise<void> {
    const request = { owner: 'me', now: this.#now, leasedUntil: this.#now + minute, limit: 100 };
    const overdue = await this.#store(0).claimOverdue(request);
    const { claims } = await this.#store(0).claimDue(request);
    this.#claims.push(...claims, ...overdue.claims);
  }

  async happens(decision: number, place: number): Promise<void> {
    const kind = decision % 16;
    const pick = Math.floor(decision / 16);
    const store = this.#store(place);
    if (kind < 5) await this.#start(store, pick);
    else if (kind < 11) await this.#goOn(store, pick, true);
    else if (kind < 12) await this.#goOn(store, pick, false);
    else if (kind < 13) await this.#fail(store, pick);
    else if (kind < 14) await this.#cancel(store, pick);
    else if (kind < 15) await this.#retry(store, pick);
    else this.#die();
  }

  /** Ends everything; a run that still runs after this many rounds waits for itself. */
  async finish(): Promise<void> {
    const [store] = this.#stores;
    if (store === undefined) return;
    this.#die();
    let left: readonly { readonly id: string }[] = [];
    for (let rounds = 0; rounds < 2 * this.#known.length + 20; rounds += 1) {
      await this.claim();
      while (this.#claims.length > 0) await this.#goOn(store, 0, false);
      left = (await store.listRuns({ status: 'Running', skip: 0, take: 100 })).items;
      if (left.length === 0) return;
      this.#now += 2 * minute;
    }
    expect(
      left.map((run) => run.id),
      this.#told.join('; '),
    ).toEqual([]);
  }

  #store(place: number): Store {
    const store = this.#stores[place % this.#stores.length];
    if (store === undefined) throw new Error('there is no store');
    return store;
  }

  /** The process with the leases dies; the leases expire. */
  #die(): void {
    this.#told.push('die');
    this.#claims = [];
    this.#now += 2 * minute;
  }

  async #start(store: Store, pick: number): Promise<void> {
    const runId = id(this.#from + this.#known.length);
    const flowId = FLOWS[pick % FLOWS.length] ?? '';
    const key = String(Math.floor(pick / 8) % KEYS);
    this.#known.push(runId);
    this.#told.push(`start ${runId.slice(-4)} of ${flowId.slice(9, 13)} ${key}`);
    const pins = Object.fromEntries(FLOWS.map((flow) => [flow, 1]));
    const steps = [{ stepKey: 'go', stepType: 'RunFlow', dueAt: this.#now }];
    const order = { key, problem: null, isTrusted: true };
    await store.accept({ run: aRun({ id: runId, flowId, steps, pins, order, startedAt: this.#now }) });
  }

  /** A step runs a flow, or has seen that flow's end. */
  async #goOn(store: Store, pick: number, mayRun: boolean): Promise<void> {
    const claim = this.#take(pick);
    if (claim === undefined) return;
    const awaited = (claim.resumed?.state as { readonly subRun?: string } | null | undefined)?.subRun;
    if (awaited !== undefined) {
      const isRunning = (await store.findRun(awaited))?.status === 'Running';
      this.#told.push(`${claim.runId.slice(-4)} sees ${awaited.slice(-4)} ${isRunning ? 'run' : 'ended'}`);
      const state = { subRun: awaited };
      const waits = { kind: 'waiting', state, dueAt: this.#now + minute, signalName: null } as const;
      await finish(store, claim, isRunning ? waits : succeeded(), this.#now);
      return;
    }
    if (!mayRun || claim.stepKey !== 'go') {
      await finish(store, claim, succeeded(), this.#now);
      return;
    }
    const flow = FLOWS[pick % FLOWS.length] ?? '';
    const key = String(Math.floor(pick / 8) % KEYS);
    const isAwaited = pick % 7 > 0;
    const advance = await finish(store, claim, asking(flow, { body: { key }, isAwaited }), this.#now);
    const { run, result } = advance?.subRun ?? {};
    this.#told.push(`${claim.runId.slice(-4)} runs ${run?.id.slice(-4)} of ${flow.slice(9, 13)} ${key} ${isAwaited}`);
    if (result?.kind === 'failed' && result.error.code === 'order_deadlock') this.refused += 1;
    if (run) this.#known.push(run.id);
  }

  async #fail(store: Store, pick: number): Promise<void> {
    const claim = this.#take(pick);
    if (claim === undefined) return;
    this.#told.push(`${claim.runId.slice(-4)} fails`);
    await finish(store, claim, failed(), this.#now);
  }

  async #cancel(store: Store, pick: number): Promise<void> {
    const runId = this.#known[pick % Math.max(1, this.#known.length)];
    if (runId === undefined) return;
    this.#told.push(`cancel ${runId.slice(-4)}`);
    await store.cancelRun({ runId, reason: null, at: this.#now });
  }

  async #retry(store: Store, pick: number): Promise<void> {
    const runId = this.#known[pick % Math.max(1, this.#known.length)];
    if (runId === undefined) return;
    const { kind } = await store.retryStep({ runId, stepKey: 'go', at: this.#now });
    this.#told.push(`retry ${runId.slice(-4)}: ${kind}`);
    if (kind === 'orderDeadlock') this.refused += 1;
  }

  #take(pick: number): Claim | undefined {
    const [claim] = this.#claims.splice(pick % Math.max(1, this.#claims.length), 1);
    return claim;
  }
}
