import type { Stage } from './stage.ts';
import { type Admission, admit, idOfFlow, Played, type Prediction, type Sent, type World, webhook } from './world.ts';

interface State {
  /** Names of runs by nonce; null if a filter started none. */
  readonly nonces: Readonly<Record<string, string | null>>;
  readonly keys: Readonly<Record<string, { readonly run: string; readonly body: string }>>;
  readonly events: Readonly<Record<string, string>>;
  readonly runs: readonly number[];
  readonly admission: Admission;
}

interface Body {
  readonly n: number;
  readonly id: string;
  readonly wanted: boolean;
}

const FLOW = idOfFlow('a');
const KEYS = 5;
const EVENTS = 12;

/** Nonces, idempotency keys, event ids, filters, schemas, signatures, closed flows: which refuses first, what stays. */
export class Events extends Played<State> implements World {
  protected state: State = { nonces: {}, keys: {}, events: {}, runs: [], admission: 'open' };
  readonly #sent: Sent[] = [];
  #version = 1;

  constructor(stage: Stage, on: string) {
    super('events', stage, on);
  }

  get manifests() {
    const inputs = {
      webhookEventId: 'body.id',
      webhookWhen: 'body.wanted',
      webhookBodySchema: { required: ['n'], properties: { n: { type: 'integer' } } },
    };
    const steps = {
      a: { type: 'NoOp' },
      b: { type: 'Transform', inputs: { value: 1 }, runAfter: { a: ['Succeeded'] } },
    };
    return [{ id: FLOW, name: 'events', version: `${this.#version}`, triggers: webhook(this.name, inputs), steps }];
  }

  async act(): Promise<void> {
    const { below } = this.chance;
    const kind = below(20);
    if (kind === 0) await this.#admit();
    else if (kind === 1) await this.#deploy();
    else await this.deliver(this.#draw(kind));
  }

  async finish(): Promise<void> {
    if (this.state.admission !== 'open') await this.#open('open');
    await this.expectRuns(FLOW, new Map(this.state.runs.map((n) => [n, 'Succeeded'])));
  }

  protected predict(state: State, sent: Sent): Prediction<State> {
    const refused = (status: number, reason: string) => ({ answers: [{ status, reason }], next: state });
    if (state.admission === 'closed') return refused(403, 'flow_disabled');
    if (sent.signedBy === 'nobody') return refused(401, 'signature_missing');
    if (sent.signedBy === 'stranger') return refused(401, 'signature_mismatch');
    // Invalid JSON matches no schema, and the schema is checked before the body is read.
    if (!sent.body.endsWith('}')) return refused(422, 'body_schema');
    const body = JSON.parse(sent.body) as Body;
    if (!Number.isInteger(body.n)) return refused(422, 'body_schema');
    if (Object.hasOwn(state.nonces, sent.nonce)) return refused(409, 'nonce_replayed');
    const ofKey = sent.key === undefined ? undefined : state.keys[sent.key];
    if (ofKey !== undefined && ofKey.body !== sent.body) return refused(409, 'idempotency_conflict');
    const known = (run: string | null) => ({ ...state, nonces: { ...state.nonces, [sent.nonce]: run } });
    const first = ofKey?.run ?? state.events[body.id];
    if (first !== undefined) {
      return { answers: [{ status: 200, flags: ['duplicate'], run: first }], next: known(first) };
    }
    if (!body.wanted) return { answers: [{ status: 200, flags: ['filtered'], run: null }], next: known(null) };
    const run = String(sent.n);
    const flags = state.admission === 'holding' ? ['held'] : [];
    const next = {
      ...known(run),
      events: { ...state.events, [body.id]: run },
      ...(sent.key !== undefined && { keys: { ...state.keys, [sent.key]: { run, body: sent.body } } }),
      runs: [...state.runs, sent.n],
    };
    return { answers: [{ status: 200, flags, run }], next };
  }

  #draw(kind: number): Sent {
    const { below, once, pick } = this.chance;
    const n = this.next();
    const known = this.#sent.length === 0 ? undefined : pick(this.#sent);
    const body: Body = { n, id: `event ${once(3) ? below(EVENTS) : `${n} alone`}`, wanted: !once(5) };
    const fresh: Sent = {
      n,
      nonce: `nonce ${n}`,
      body: JSON.stringify(body),
      ...(once(4) && { key: `key ${below(KEYS)} of ${Math.floor(n / 20)}` }),
    };
    let sent = fresh;
    if (kind < 6 && known !== undefined) sent = known;
    else if (kind === 6 && known !== undefined) sent = { ...known, nonce: fresh.nonce };
    else if (kind === 7 && known !== undefined) sent = { ...fresh, nonce: known.nonce };
    else if (kind === 8) sent = { ...fresh, signedBy: 'stranger' };
    else if (kind === 9) sent = { ...fresh, signedBy: 'nobody' };
    else if (kind === 10) sent = { ...fresh, body: `${fresh.body.slice(0, -1)},` };
    else if (kind === 11) sent = { ...fresh, body: JSON.stringify({ ...body, n: `${n}` }) };
    // A repetition under a new nonce is one more delivery of the same number; all share the first run that starts.
    if (sent.signedBy === undefined) this.#sent.push(sent);
    return sent;
  }

  async #admit(): Promise<void> {
    const { pick } = this.chance;
    await this.#open(this.state.admission === 'open' ? pick(['holding', 'closed'] as const) : 'open');
  }

  async #open(to: Admission): Promise<void> {
    await admit(this.stage, { flowId: FLOW, to }, (path, body) => this.command(path, body));
    this.state = { ...this.state, admission: to };
  }

  async #deploy(): Promise<void> {
    this.#version += 1;
    await this.command(`PUT flows/${FLOW}`, this.manifests[0]);
  }
}
