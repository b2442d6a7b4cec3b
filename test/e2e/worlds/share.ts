import type { Stage } from './stage.ts';
import { type Admission, admit, idOfFlow, Played, type Prediction, type Sent, type World, webhook } from './world.ts';

const FLOWS = ['plain', 'filtered', 'events'] as const;
type Flow = (typeof FLOWS)[number];
const idOf = (flow: Flow) => idOfFlow('f', FLOWS.indexOf(flow));

interface State {
  readonly nonces: readonly string[];
  /** Names of runs by event, for the flow that knows events. */
  readonly events: Readonly<Record<string, string>>;
  /** Numbers of the deliveries that started a run, by flow. */
  readonly runs: Readonly<Record<Flow, readonly number[]>>;
  readonly admission: Readonly<Record<Flow, Admission>>;
}

interface Body {
  readonly n: number;
  readonly id: string;
  readonly wanted: boolean;
}

const EVENTS = 6;

/** One slug, three flows: which of them get a run for a delivery, and which run the others name. */
export class Share extends Played<State> implements World {
  protected state: State = {
    nonces: [],
    events: {},
    runs: { plain: [], filtered: [], events: [] },
    admission: { plain: 'open', filtered: 'open', events: 'open' },
  };
  readonly #sent: Sent[] = [];
  readonly #versions: Record<Flow, number> = { plain: 1, filtered: 1, events: 1 };

  constructor(stage: Stage, on: string) {
    super('share', stage, on);
  }

  get manifests() {
    return FLOWS.map((flow) => this.#manifest(flow));
  }

  async act(): Promise<void> {
    const { below, once, pick } = this.chance;
    if (once(8)) await this.#admit(pick(FLOWS));
    else if (once(12)) await this.#deploy(pick(FLOWS));
    else if (once(5) && this.#sent.length > 0) await this.deliver(pick(this.#sent));
    else {
      const n = this.next();
      const body: Body = { n, id: `event ${once(2) ? below(EVENTS) : `${n} alone`}`, wanted: once(2) };
      const sent = { n, nonce: `nonce ${n}`, body: JSON.stringify(body) };
      await this.deliver(sent);
      this.#sent.push(sent);
    }
  }

  async finish(): Promise<void> {
    for (const flow of FLOWS) if (this.state.admission[flow] !== 'open') await this.#admit(flow);
    for (const flow of FLOWS) {
      const expected = new Map(this.state.runs[flow].map((n) => [n, 'Succeeded']));
      await this.expectRuns(idOf(flow), expected, (n) => `${n} ${flow}`);
    }
  }

  protected predict(state: State, sent: Sent): Prediction<State> {
    const refused = (status: number, reason: string) => ({ answers: [{ status, reason }], next: state });
    const body = JSON.parse(sent.body) as Body;
    if (FLOWS.every((flow) => state.admission[flow] === 'closed')) return refused(403, 'flow_disabled');
    if (state.nonces.includes(sent.nonce)) return refused(409, 'nonce_replayed');
    const known = state.events[body.id];
    const started = FLOWS.filter((flow) => {
      if (state.admission[flow] === 'closed') return false;
      if (flow === 'events') return known === undefined;
      return flow === 'plain' || body.wanted;
    });
    const runs = Object.fromEntries(started.map((flow) => [idOf(flow), `${sent.n} ${flow}`]));
    if (state.admission.events !== 'closed' && known !== undefined) runs[idOf('events')] = known;
    const next = {
      ...state,
      nonces: [...state.nonces, sent.nonce],
      runs: Object.fromEntries(
        FLOWS.map((flow) => [flow, started.includes(flow) ? [...state.runs[flow], sent.n] : state.runs[flow]]),
      ) as State['runs'],
      ...(started.includes('events') && { events: { ...state.events, [body.id]: `${sent.n} events` } }),
    };
    return { answers: [{ status: 200, runs }], next };
  }

  #manifest(flow: Flow) {
    const inputs = {
      webhookShared: true,
      ...(flow === 'filtered' && { webhookWhen: 'body.wanted' }),
      ...(flow === 'events' && { webhookEventId: 'body.id' }),
    };
    const steps = { a: { type: 'NoOp' } };
    return {
      id: idOf(flow),
      name: flow,
      version: `${this.#versions[flow]}`,
      triggers: webhook(this.name, inputs),
      steps,
    };
  }

  async #admit(flow: Flow): Promise<void> {
    const { pick } = this.chance;
    const other = pick(['holding', 'closed'] as const);
    const to = this.state.admission[flow] === 'open' ? other : 'open';
    await admit(this.stage, { flowId: idOf(flow), to }, (path, body) => this.command(path, body));
    this.state = { ...this.state, admission: { ...this.state.admission, [flow]: to } };
  }

  async #deploy(flow: Flow): Promise<void> {
    this.#versions[flow] += 1;
    await this.command(`PUT flows/${idOf(flow)}`, this.#manifest(flow));
  }
}
