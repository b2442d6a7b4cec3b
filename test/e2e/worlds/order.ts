import { expect } from 'vitest';
import { eventually } from '../../eventually.ts';
import { HURT, look, type Stage } from './stage.ts';
import { idOfFlow, Played, type Prediction, type Sent, type World, webhook } from './world.ts';

interface Run {
  readonly n: number;
  readonly key: string;
  status: 'Running' | 'Succeeded' | 'Failed' | 'Cancelled';
  /** It fails again as soon as it has its turn. */
  isSpoilt: boolean;
}

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly waitingFor: readonly { readonly for: string; readonly runId: string | null }[];
}

const KEYS = ['one', 'two', 'three'];
const cel = (expression: string) => `\${${expression}}`;

/** Runs of one key, one at a time: which runs, which wait for which, and the effect of a failed run. */
export class Order extends Played<readonly number[]> implements World {
  /** Numbers of the deliveries that have a run. */
  protected state: readonly number[] = [];
  readonly #flow: string;
  readonly #stops: boolean;
  readonly #runs = new Map<number, Run>();
  /** By key: the first run is running, or has failed and holds the lane. */
  readonly #lanes = new Map<string, Run[]>(KEYS.map((key) => [key, []]));

  constructor(stage: Stage, on: string, onFailure: 'continue' | 'stop') {
    super(onFailure === 'stop' ? 'stop' : 'order', stage, on);
    this.#stops = onFailure === 'stop';
    this.#flow = idOfFlow(this.#stops ? 'd' : 'c');
  }

  get manifests() {
    return [
      {
        ...{ id: this.#flow, name: this.name, version: '1' },
        ...{ serialize: 'trigger.body.key', serializeOnFailure: this.#stops ? 'stop' : 'continue' },
        triggers: webhook(this.name, { webhookDuplicateResponse: 'acknowledge' }),
        steps: {
          go: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
          check: {
            type: 'Transform',
            inputs: { value: cel('1 / int(steps.go.output)') },
            runAfter: { go: ['Succeeded'] },
          },
        },
      },
    ];
  }

  async act(): Promise<void> {
    const kind = this.chance.below(20);
    if (kind < 8) await this.#start();
    else if (kind < 13) await this.#end(1);
    else if (kind < 15) await this.#end(0);
    else if (kind < 17) await this.#cancel();
    else if (kind < 19) await this.#retry();
    else await this.#release();
    await this.#look();
  }

  async finish(): Promise<void> {
    for (let left = this.#all(() => true); left.length > 0; left = this.#all(() => true)) {
      const stopped = left.find(({ status }) => status === 'Failed');
      if (stopped !== undefined) await this.#release(stopped);
      else await this.#end(1);
      await this.#look();
    }
    await this.expectRuns(this.#flow, new Map([...this.#runs.values()].map(({ n, status }) => [n, status])));
  }

  protected predict(state: readonly number[], { n }: Sent): Prediction<readonly number[]> {
    const isKnown = state.includes(n);
    const flags = isKnown ? ['duplicate'] : [];
    return { answers: [{ status: 200, flags, run: String(n) }], next: isKnown ? state : [...state, n] };
  }

  async #start(): Promise<void> {
    const [n, key] = [this.next(), this.chance.pick(KEYS)];
    const run: Run = { n, key, status: 'Running', isSpoilt: false };
    await this.deliver({ n, nonce: `nonce ${n}`, body: JSON.stringify({ n, key }) });
    this.#runs.set(n, run);
    this.#lane(key).push(run);
  }

  /** Ends a run that has its turn. */
  async #end(signal: 0 | 1): Promise<void> {
    const run = this.#one(this.#all((each) => each.status === 'Running' && this.#lane(each.key)[0] === each));
    if (run === undefined) return;
    await this.command(`runs/${this.idOf(String(run.n))}/signals/go`, signal, [409]);
    run.isSpoilt = signal === 0;
    if (signal === 1) {
      run.status = 'Succeeded';
      this.#leave(run);
    }
    this.#goOn(run.key);
  }

  async #cancel(): Promise<void> {
    const run = this.#one([...this.#runs.values()].filter(({ status }) => status === 'Running'));
    if (run === undefined) return;
    await this.command(`runs/${this.idOf(String(run.n))}/cancel`, {}, [409]);
    run.status = 'Cancelled';
    this.#leave(run);
    this.#goOn(run.key);
  }

  /** Its failed signal stays stored, so a retry fails again when it has its turn. */
  async #retry(): Promise<void> {
    const run = this.#one([...this.#runs.values()].filter(({ status }) => status === 'Failed'));
    if (run === undefined) return;
    await this.command(`runs/${this.idOf(String(run.n))}/steps/check/retry`, {}, [409]);
    run.status = 'Running';
    const lane = this.#lane(run.key);
    if (!lane.includes(run)) lane.push(run);
    this.#goOn(run.key);
  }

  async #release(given?: Run): Promise<void> {
    const run = given ?? this.#one(this.#all(({ status }) => status === 'Failed'));
    if (run === undefined) return;
    await this.command(`runs/${this.idOf(String(run.n))}/release-order`, {}, [409]);
    this.#leave(run);
    this.#goOn(run.key);
  }

  #goOn(key: string): void {
    for (let [first] = this.#lane(key); first?.isSpoilt === true; [first] = this.#lane(key)) {
      first.status = 'Failed';
      if (this.#stops) return;
      this.#leave(first);
    }
  }

  /** Every run has the model's status, and names the run it waits for. */
  async #look(): Promise<void> {
    const expected = [...this.#runs.values()].map((run) => {
      const lane = this.#lane(run.key);
      const before = lane[lane.indexOf(run) - 1];
      const behind = before === undefined ? 'signal' : `order ${this.idOf(String(before.n))}`;
      return [this.idOf(String(run.n)), run.status, run.status === 'Running' ? behind : ''].join(' ');
    });
    const wanted = expected.sort().join('\n');
    const found = async () => {
      const runs = await look<Listed[]>(this.stage, `runs?flowId=${this.#flow}&take=500`);
      const shown = runs.map(({ id, status, waitingFor }) => {
        const [wait] = waitingFor;
        return `${id} ${status} ${[wait?.for, wait?.runId].filter((part) => typeof part === 'string').join(' ')}`;
      });
      return shown.sort().join('\n');
    };
    await eventually(found, (shown) => shown === wanted, HURT).catch(async (error) => {
      expect(await found(), this.story(String(error))).toBe(wanted);
    });
  }

  #lane(key: string): Run[] {
    return this.#lanes.get(key) ?? [];
  }

  #all(isWanted: (run: Run) => boolean): Run[] {
    return [...this.#lanes.values()].flat().filter(isWanted);
  }

  #one(runs: readonly Run[]): Run | undefined {
    const at = this.chance.below(1000);
    return runs[at % Math.max(1, runs.length)];
  }

  #leave(run: Run): void {
    this.#lanes.set(
      run.key,
      this.#lane(run.key).filter((each) => each !== run),
    );
  }
}
