import type { Stage } from './stage.ts';
import { type Admission, admit, idOfFlow, Played, type Prediction, type Sent, type World, webhook } from './world.ts';

interface State {
  readonly nonces: readonly string[];
  readonly runs: Readonly<Record<string, 'Succeeded' | 'Failed'>>;
  readonly admission: Admission;
}

const FLOW = idOfFlow('9');
const cel = (expression: string) => `\${${expression}}`;

/** A step's own answer, the cases for the fixed answer, and the answer to a repetition. */
export class Respond extends Played<State> implements World {
  protected state: State = { nonces: [], runs: {}, admission: 'open' };
  readonly #sent: Sent[] = [];
  readonly manifests = [
    {
      ...{ id: FLOW, name: 'respond', version: '1' },
      triggers: webhook('respond', {
        webhookDuplicateResponse: 'acknowledge',
        webhookRespond: { step: 'reply', withinSeconds: 20 },
      }),
      steps: {
        first: { type: 'NoOp' },
        reply: {
          type: 'Transform',
          inputs: { value: cel('trigger.body.answer') },
          runAfter: { first: ['Succeeded'] },
        },
        last: { type: 'NoOp', runAfter: { reply: ['Succeeded'] } },
      },
    },
  ];

  constructor(stage: Stage, on: string) {
    super('respond', stage, on);
  }

  async act(): Promise<void> {
    const { once, pick } = this.chance;
    if (once(12)) await this.#admit(this.state.admission === 'open' ? pick(['holding', 'closed'] as const) : 'open');
    else if (once(5) && this.#sent.length > 0) await this.deliver(pick(this.#sent));
    else {
      const n = this.next();
      const answer = pick([
        { status: 201, headers: { 'content-type': 'text/plain' }, body: `hello ${n}` },
        { body: { n } },
        // The next two are not allowed as answers to a publisher.
        { status: 500, body: 'no' },
        { headers: { 'content-type': 'text/html' }, body: `<p>${n}</p>` },
        undefined,
      ]);
      const sent = { n, nonce: `nonce ${n}`, body: JSON.stringify({ n, answer }) };
      await this.deliver(sent);
      this.#sent.push(sent);
    }
  }

  async finish(): Promise<void> {
    if (this.state.admission !== 'open') await this.#admit('open');
    await this.expectRuns(FLOW, new Map(Object.entries(this.state.runs).map(([n, status]) => [Number(n), status])));
  }

  protected predict(state: State, { n, nonce, body }: Sent): Prediction<State> {
    if (state.admission === 'closed') return { answers: [{ status: 403, reason: 'flow_disabled' }], next: state };
    const fixed = (flags: readonly string[]) => ({ status: 200, flags, run: String(n) });
    if (state.nonces.includes(nonce)) return { answers: [fixed(['duplicate'])], next: state };
    const { answer } = JSON.parse(body) as { answer?: { status?: number; headers?: object; body: unknown } };
    const next = {
      ...state,
      nonces: [...state.nonces, nonce],
      runs: { ...state.runs, [n]: answer === undefined ? ('Failed' as const) : ('Succeeded' as const) },
    };
    if (state.admission === 'holding') return { answers: [fixed(['held'])], next };
    // A stopping service gives the fixed answer to all waiting senders.
    const late = this.stage.isHurt ? [fixed([])] : [];
    if (answer?.status === 201) return { answers: [{ status: 201, text: String(answer.body) }, ...late], next };
    if (answer !== undefined && answer.status === undefined && answer.headers === undefined) {
      return { answers: [{ status: 200, text: JSON.stringify(answer.body) }, ...late], next };
    }
    return { answers: [fixed([])], next };
  }

  async #admit(to: Admission): Promise<void> {
    await admit(this.stage, { flowId: FLOW, to }, (path, body) => this.command(path, body));
    this.state = { ...this.state, admission: to };
  }
}
