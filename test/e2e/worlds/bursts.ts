import { expect } from 'vitest';
import type { Stage } from './stage.ts';
import { idOfFlow, Played, type Prediction, type Sent, type World, webhook } from './world.ts';

interface State {
  readonly bodies: Readonly<Record<string, string>>;
  readonly runs: readonly number[];
}

const FLOW = idOfFlow('b');
const [DELIVERIES, COPIES] = [4, 4];

/** Sends copies of several deliveries at once: one copy of each starts the run, and the others get its id. */
export class Bursts extends Played<State> implements World {
  protected state: State = { bodies: {}, runs: [] };
  readonly manifests = [
    {
      id: FLOW,
      name: 'bursts',
      version: '1',
      triggers: webhook('bursts', { webhookDuplicateResponse: 'acknowledge' }),
      steps: { a: { type: 'NoOp' } },
    },
  ];

  constructor(stage: Stage, on: string) {
    super('bursts', stage, on);
  }

  async act(): Promise<void> {
    const { below, once } = this.chance;
    const known = Object.keys(this.state.bodies);
    const fresh = Array.from({ length: 1 + below(DELIVERIES) }, () => this.#fresh());
    const copies = fresh.flatMap((sent) => Array.from({ length: 1 + below(COPIES) }, () => sent));
    const other = known[below(Math.max(1, known.length))];
    await this.#burst(copies);
    // Other bytes under a known nonce.
    if (once(3) && other !== undefined) await this.deliver({ ...this.#fresh(), nonce: other });
  }

  async finish(): Promise<void> {
    await this.expectRuns(FLOW, new Map(this.state.runs.map((n) => [n, 'Succeeded'])));
  }

  protected predict(state: State, { n, nonce, body }: Sent): Prediction<State> {
    const known = state.bodies[nonce];
    if (known === undefined) {
      const next = { bodies: { ...state.bodies, [nonce]: body }, runs: [...state.runs, n] };
      return { answers: [{ status: 200, flags: [], run: String(n) }], next };
    }
    if (known !== body) return { answers: [{ status: 409, reason: 'nonce_replayed' }], next: state };
    const run = String((JSON.parse(body) as { n: number }).n);
    return { answers: [{ status: 200, flags: ['duplicate'], run }], next: state };
  }

  #fresh(): Sent {
    const n = this.next();
    return { n, nonce: `nonce ${n}`, body: JSON.stringify({ n }) };
  }

  /** The service decides which copy is the first: at most one, and exactly one if every copy was answered at once. */
  async #burst(copies: readonly Sent[]): Promise<void> {
    const answers = await Promise.all(copies.map((sent) => this.send(sent)));
    for (const sent of new Set(copies)) {
      const own = answers.filter((_, at) => copies[at] === sent);
      const said = own.map(({ answer }) => JSON.parse(answer.text) as { runId: string; duplicate?: true });
      expect(new Set(own.map(({ answer }) => answer.status)), this.story()).toEqual(new Set([200]));
      expect(new Set(said.map(({ runId }) => runId)).size, this.story('one run for all copies')).toBe(1);
      const firsts = said.filter(({ duplicate }) => duplicate !== true).length;
      if (own.every(({ isFirst }) => isFirst)) expect(firsts, this.story('one is the first')).toBe(1);
      else expect(firsts, this.story('at most one is the first')).toBeLessThanOrEqual(1);
      this.ids.set(String(sent.n), String(said[0]?.runId));
      this.state = this.predict(this.state, sent).next;
    }
  }
}
