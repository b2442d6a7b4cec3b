import { expect } from 'vitest';
import type { Stage } from './stage.ts';
import { type Admission, admit, idOfFlow, Played, type Prediction, type Sent, type World, webhook } from './world.ts';

interface Group {
  readonly run: string;
  readonly version: number;
  readonly isHeld: boolean;
}

interface State {
  /** The newest group of each key. */
  readonly groups: Readonly<Record<string, Group>>;
  /** The deliveries of each run, by run name. */
  readonly runs: Readonly<Record<string, readonly number[]>>;
  /** Names of runs whose flow was holding: releasing them starts them, even if the group is not full. */
  readonly held: readonly string[];
  readonly nonces: Readonly<Record<string, string>>;
  readonly admission: Admission;
}

const FLOW = idOfFlow('e');
const KEYS = ['one', 'two', 'three'];
const COLLECT = 4;
/** Longer than the test and its clock shifts, so that only a full group or a release starts a run. */
const SECONDS = 86_400;
const cel = (expression: string) => `\${${expression}}`;

/** Deliveries of one key share a run: the model knows which run, which deliveries, and their order. */
export class Coalesce extends Played<State> implements World {
  protected state: State = { groups: {}, runs: {}, held: [], nonces: {}, admission: 'open' };
  readonly #sent: Sent[] = [];
  #version = 1;

  constructor(stage: Stage, on: string) {
    super('coalesce', stage, on);
  }

  get manifests() {
    const coalesce = { key: 'body.key', quietSeconds: SECONDS, maxSeconds: SECONDS, collect: COLLECT };
    const steps = { all: { type: 'Transform', inputs: { value: cel('trigger.deliveries.map(d, d.body.n)') } } };
    const triggers = webhook(this.name, { webhookDuplicateResponse: 'acknowledge' }, { coalesce });
    return [{ id: FLOW, name: 'coalesce', version: `${this.#version}`, triggers, steps }];
  }

  async act(): Promise<void> {
    const { below, pick } = this.chance;
    const kind = below(12);
    if (kind === 0) await this.#admit(this.state.admission === 'open' ? 'holding' : 'open');
    else if (kind === 1) await this.#deploy();
    else if (kind < 5 && this.#sent.length > 0) await this.deliver(pick(this.#sent));
    else await this.#send(pick(KEYS));
  }

  async finish(): Promise<void> {
    if (this.state.admission !== 'open') await this.#admit('open');
    for (const key of KEYS) while (this.#joinable(this.state, key) !== undefined) await this.#send(key);
    const cancelled = new Set<string>();
    for (const [run, deliveries] of Object.entries(this.state.runs)) {
      if (deliveries.length === COLLECT || this.state.held.includes(run)) continue;
      // A group that a deploy left behind waits for hours.
      await this.command(`runs/${this.idOf(run)}/cancel`, {}, [409]);
      cancelled.add(run);
    }
    const runOf = new Map(Object.entries(this.state.runs).map(([run, deliveries]) => [deliveries.at(-1) ?? 0, run]));
    const nameOf = (n: number) => runOf.get(n) ?? '';
    const statusOf = (run: string) => (cancelled.has(run) ? 'Cancelled' : 'Succeeded');
    await this.expectRuns(FLOW, new Map([...runOf].map(([n, run]) => [n, statusOf(run)])), nameOf);
    for (const [n, { steps }] of await this.runsByNumber(FLOW)) {
      const run = nameOf(n);
      if (cancelled.has(run)) continue;
      const output = steps.find(({ stepKey }) => stepKey === 'all')?.output;
      expect(output, this.story(`deliveries of run ${run}`)).toEqual(this.state.runs[run]);
    }
  }

  protected predict(state: State, { n, nonce, body }: Sent): Prediction<State> {
    const known = state.nonces[nonce];
    if (known !== undefined) return { answers: [{ status: 200, flags: ['duplicate'], run: known }], next: state };
    const { key } = JSON.parse(body) as { key: string };
    const isHeld = state.admission === 'holding';
    const joined = this.#joinable(state, key);
    const group = joined ?? { run: String(n), version: this.#version, isHeld };
    const next = {
      ...state,
      nonces: { ...state.nonces, [nonce]: group.run },
      runs: { ...state.runs, [group.run]: [...(state.runs[group.run] ?? []), n] },
      groups: { ...state.groups, [key]: group },
      ...(isHeld && { held: [...state.held, group.run] }),
    };
    const flags = isHeld ? ['held'] : joined === undefined ? [] : ['coalesced'];
    return { answers: [{ status: 200, flags, run: group.run }], next };
  }

  /** The group that the next delivery of a key joins. Held deliveries are coalesced separately. */
  #joinable({ groups, runs, admission }: State, key: string): Group | undefined {
    const group = groups[key];
    if (group === undefined || group.isHeld !== (admission === 'holding')) return undefined;
    return group.version === this.#version && (runs[group.run]?.length ?? 0) < COLLECT ? group : undefined;
  }

  async #send(key: string): Promise<void> {
    const n = this.next();
    const sent = { n, nonce: `nonce ${n}`, body: JSON.stringify({ n, key }) };
    await this.deliver(sent);
    this.#sent.push(sent);
  }

  async #admit(to: Admission): Promise<void> {
    await admit(this.stage, { flowId: FLOW, to }, (path, body) => this.command(path, body));
    this.state = { ...this.state, admission: to };
    if (to === 'open') this.state = { ...this.state, groups: this.#without((group) => group.isHeld) };
  }

  async #deploy(): Promise<void> {
    this.#version += 1;
    await this.command(`PUT flows/${FLOW}`, this.manifests[0]);
  }

  #without(isGone: (group: Group) => boolean): State['groups'] {
    return Object.fromEntries(Object.entries(this.state.groups).filter(([, group]) => !isGone(group)));
  }
}
