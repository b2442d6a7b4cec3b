import { createHmac } from 'node:crypto';
import { expect } from 'vitest';
import { type Chance, chanceOf, SEED } from '../../chance.ts';
import { eventually } from '../../eventually.ts';
import { GITHUB_SECRET } from '../service.ts';
import { type Answer, type Answered, ask, HURT, look, type Stage } from './stage.ts';

/** One subject of the contract: its flows, random commands, and a model that predicts every answer. */
export interface World {
  readonly name: string;
  readonly manifests: readonly object[];
  /** Draws one command, sends it and compares the answer with the model's. */
  act(): Promise<void>;
  /** Ends all runs and compares them with the model. */
  finish(): Promise<void>;
}

/** A delivery as its publisher sends it, once or repeatedly. */
export interface Sent {
  readonly n: number;
  readonly nonce: string;
  readonly body: string;
  readonly key?: string;
  readonly signedBy?: 'stranger' | 'nobody';
}

/** One answer that the model predicts. `run` is the model's name for a run. */
export interface Expected {
  readonly status: number;
  readonly reason?: string;
  /** Which of `duplicate`, `filtered`, `held` and `coalesced` it has; undefined if the model does not know. */
  readonly flags?: readonly string[];
  readonly run?: string | null;
  /** Names of runs by flow, for a slug that flows share. */
  readonly runs?: Readonly<Record<string, string>>;
  /** The text that a step answers with, instead of the fields above. */
  readonly text?: string;
}

export interface Prediction<State> {
  /** Any of them is right. */
  readonly answers: readonly Expected[];
  readonly next: State;
}

const FLAGS = ['coalesced', 'duplicate', 'filtered', 'held'];
const TOLD = 30;

export const idOfFlow = (letter: string, n = 0) => `${letter}000000${n}-0000-4000-8000-000000000000`;

export function webhook(slug: string, inputs: object = {}, more: object = {}): object {
  const own = { webhookSlug: slug, webhookSignatureScheme: 'GitHub', webhookHmacKey: GITHUB_SECRET };
  return { hook: { type: 'webhook', inputs: { ...own, webhookNonceHeader: 'X-GitHub-Delivery', ...inputs }, ...more } };
}

/** Common to all worlds: names of runs, the log for failures, and the prediction of deliveries. */
export abstract class Played<State> {
  readonly name: string;
  protected readonly chance: Chance;
  protected readonly stage: Stage;
  protected abstract state: State;
  /** Ids of runs, by the model's names. */
  protected readonly ids = new Map<string, string>();
  readonly #told: string[] = [];
  #count = 0;

  constructor(name: string, stage: Stage, on: string) {
    this.name = name;
    this.stage = stage;
    this.chance = chanceOf(`${name} on ${on}`);
  }

  /** Predicts what a delivery leads to; does not change the state. */
  protected abstract predict(state: State, sent: Sent): Prediction<State>;

  protected next(): number {
    this.#count += 1;
    return this.#count;
  }

  /** Sends it until it is answered. */
  protected async send({ n, nonce, body, key, signedBy }: Sent): Promise<Answered> {
    const secret = signedBy === 'stranger' ? 'a guess of some length' : GITHUB_SECRET;
    const signature = createHmac('sha256', secret).update(body).digest('hex');
    const answered = await ask(this.stage, {
      path: `webhook/${this.name}`,
      headers: {
        'x-github-delivery': nonce,
        ...(signedBy !== 'nobody' && { 'x-hub-signature-256': `sha256=${signature}` }),
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      body,
    });
    const { answer, isFirst } = answered;
    const sent = [n, nonce, body, key, signedBy].filter((part) => part !== undefined).join(' ');
    this.tell(`${isFirst ? '' : 'again '}${sent}: ${answer.status} ${answer.text}`);
    return answered;
  }

  /** Sends it and expects an answer of the model: as a new delivery, or as a known one if it was sent twice. */
  protected async deliver(sent: Sent): Promise<void> {
    const { answer, isFirst } = await this.send(sent);
    const asNew = this.predict(this.state, sent);
    const candidates = isFirst ? [asNew] : [this.predict(asNew.next, sent), asNew];
    const found = candidates.find(({ answers }) => answers.some((each) => this.#isMatch(each, answer)));
    if (found === undefined) expect(answer, this.story()).toEqual(candidates.map(({ answers }) => answers));
    for (const expected of found?.answers ?? []) if (this.#isMatch(expected, answer)) this.#learn(expected, answer);
    this.state = (found ?? asNew).next;
  }

  /** Sends an idempotent command; `done` are further statuses that are right if an earlier try carried it out. */
  protected async command(path: string, body: unknown, done: readonly number[] = []): Promise<Record<string, unknown>> {
    const method = path.startsWith('PUT ') ? 'PUT' : 'POST';
    const { answer, isFirst } = await ask(this.stage, {
      method,
      path: path.replace('PUT ', ''),
      body: JSON.stringify(body),
    });
    this.tell(`${isFirst ? '' : 'again '}${path} ${method === 'PUT' ? '' : JSON.stringify(body)}: ${answer.status}`);
    expect(isFirst ? [200] : [200, ...done], this.story(answer.text)).toContain(answer.status);
    return JSON.parse(answer.text) as Record<string, unknown>;
  }

  protected tell(what: string): void {
    this.#told.push(what);
  }

  protected story(what = ''): string {
    return [`TEST_SEED=${SEED}, ${this.name}: ${what}`, ...this.#told.slice(-TOLD)].join('\n');
  }

  protected idOf(run: string): string {
    const id = this.ids.get(run);
    if (id === undefined) throw new Error(this.story(`the id of run ${run} is not known`));
    return id;
  }

  /** All runs of a flow with their trigger bodies, by the number in the body. */
  protected async runsByNumber(flowId: string): Promise<Map<number, FoundRun>> {
    const found = new Map<number, FoundRun>();
    for (let skip = 0; ; skip += 500) {
      const page = await look<{ id: string }[]>(this.stage, `runs?flowId=${flowId}&take=500&skip=${skip}`);
      for (const { id } of page) {
        const run = await look<FoundRun>(this.stage, `runs/${id}`);
        expect(found.has(run.triggerBody.n), this.story(`two runs of ${flowId} for ${run.triggerBody.n}`)).toBe(false);
        found.set(run.triggerBody.n, run);
      }
      if (page.length < 500) return found;
    }
  }

  /** The flow has exactly the model's runs, with the same ids. */
  protected async expectRuns(
    flowId: string,
    expected: ReadonlyMap<number, string>,
    nameOf: (n: number) => string = String,
  ): Promise<void> {
    const found = await eventually(
      () => this.runsByNumber(flowId),
      (runs) => [...runs.values()].every(({ status }) => status !== 'Running'),
      { seconds: 120, because: 'hundreds of runs may be in flight' },
    );
    const statuses = [...found].map(([n, { status }]) => [n, status] as const).sort(([a], [b]) => a - b);
    expect(statuses, this.story('its runs')).toEqual([...expected].sort(([a], [b]) => a - b));
    for (const [n, { id }] of found) {
      const told = this.ids.get(nameOf(n));
      expect(told ?? id, this.story(`the run of ${n}`)).toBe(id);
    }
  }

  #isMatch(expected: Expected, { status, text }: Answer): boolean {
    if (status !== expected.status) return false;
    if (expected.text !== undefined) return text === expected.text;
    const said = jsonOf(text);
    if (said === undefined) return false;
    if (said.reason !== expected.reason) return false;
    const flags = FLAGS.filter((flag) => said[flag] === true);
    if (expected.flags !== undefined && flags.join() !== [...expected.flags].sort().join()) return false;
    if (expected.run === null && said.runId !== undefined) return false;
    if (typeof expected.run === 'string' && !this.#mayBe(expected.run, said.runId)) return false;
    if (expected.runs === undefined) return true;
    const runs = new Map((said.runs as { flowId: string; runId: string }[]).map((run) => [run.flowId, run.runId]));
    const names = Object.entries(expected.runs);
    return runs.size === names.length && names.every(([flowId, name]) => this.#mayBe(name, runs.get(flowId)));
  }

  /** Whether a run may have this id: the one known for it, or one that no other run has. */
  #mayBe(name: string, id: unknown): boolean {
    const known = this.ids.get(name);
    if (known !== undefined) return known === id;
    return typeof id === 'string' && ![...this.ids.values()].includes(id);
  }

  #learn({ run, runs, text: fixed }: Expected, { text }: Answer): void {
    if (fixed !== undefined) return;
    const said = JSON.parse(text) as { runId?: string; runs?: readonly { flowId: string; runId: string }[] };
    if (typeof run === 'string') this.ids.set(run, String(said.runId));
    for (const { flowId, runId } of said.runs ?? []) {
      const name = runs?.[flowId];
      if (name !== undefined) this.ids.set(name, runId);
    }
  }
}

export interface FoundRun {
  readonly id: string;
  readonly status: string;
  readonly triggerBody: { readonly n: number };
  readonly steps: readonly { readonly stepKey: string; readonly output: unknown }[];
}

function jsonOf(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

/** How a flow takes deliveries. */
export type Admission = 'open' | 'holding' | 'closed';

/** Opens, holds or closes a flow; after `open`, all held deliveries have started. */
export async function admit(
  stage: Stage,
  { flowId, to }: { flowId: string; to: Admission },
  command: (path: string, body: unknown) => Promise<unknown>,
): Promise<void> {
  if (to === 'closed') await command(`flows/${flowId}/disable`, {});
  else if (to === 'holding') await command(`flows/${flowId}/disable`, { hold: true });
  else {
    await command(`flows/${flowId}/enable`, {});
    // Asks the database: a replica's own count may be a moment old.
    await eventually(
      () => look<unknown[]>(stage, `webhooks/recent?flowId=${flowId}&heldOnly=true&take=1`),
      ({ length }) => length === 0,
      HURT,
    );
  }
}
