import type { StoreUnavailableError } from '../../errors.ts';
import { SharedCommits } from '../shared-commits.ts';

/** A larger batch takes longer than its flush: more calls in it save nothing, and wait longer. */
const BATCH_CALLS = 128;
/**
 * While a group is smaller than the one under way, it waits for more calls, or for the end of that one: each
 * transaction has a price. With this many calls it goes ahead, so that it does not wait long behind a group that waits
 * for a lock.
 */
const LEAST_CALLS_BESIDE = 16;

interface GroupOptions<Call, Answer> {
  /** How long the call may wait for others. */
  shareMs(call: Call): number;
  /** How many transactions may be under way at once. */
  readonly width: number;
  /** Answers all of them with one transaction; undefined for a call of which it stored nothing, to be run alone. */
  runAll(calls: readonly Call[]): Promise<readonly (Answer | undefined)[]>;
  /** Answers one with a transaction of its own. */
  runAlone(call: Call): Promise<Answer>;
}

interface Waiting<Call, Answer> {
  readonly call: Call;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/**
 * Makes the function that answers calls in groups: calls that arrive while transactions are in progress share the next
 * one, and if more are likely to come, a call waits for them a little. So the size of a group follows the load, and
 * without load no call waits.
 *
 * No call is answered before its commit, and none fails because of another one's data: if that makes a batch fail, each
 * of its calls runs again alone.
 */
export function grouped<Call, Answer>({
  shareMs,
  width,
  runAll,
  runAlone,
}: GroupOptions<Call, Answer>): (call: Call) => Promise<Answer> {
  let waiting: Waiting<Call, Answer>[] = [];
  let running = 0;
  let underWay = 0;
  const sharing = new SharedCommits(() => {
    while (mayBegin()) void work();
  });
  const inTurn = inTurns(width);
  let settled = 0;

  /** Runs as many calls next to the groups, so that groups do not wait if they take long. */
  function settleAlone({ call, resolve, reject }: Waiting<Call, Answer>): void {
    settled += 1;
    inTurn(`call ${settled}`, () => runAlone(call)).then(resolve, reject);
  }

  async function runBatch(batch: readonly Waiting<Call, Answer>[]): Promise<void> {
    let answers: readonly (Answer | undefined)[];
    try {
      answers = await runAll(batch.map(({ call }) => call));
    } catch (error) {
      if (batch.length > 1 && isOfOneCall(error)) {
        for (const one of batch) settleAlone(one);
        return;
      }
      for (const { reject } of batch) reject(error);
      return;
    }
    const left = batch.filter(({ resolve }, at) => {
      const answer = answers[at];
      if (answer !== undefined) resolve(answer);
      return answer === undefined;
    });
    for (const one of left) settleAlone(one);
  }

  const mayBegin = () =>
    running < width && waiting.length > 0 && waiting.length >= Math.min(underWay, LEAST_CALLS_BESIDE);

  async function work(): Promise<void> {
    do {
      const batch = waiting.slice(0, BATCH_CALLS);
      waiting = waiting.slice(BATCH_CALLS);
      running += 1;
      underWay += batch.length;
      await runBatch(batch);
      running -= 1;
      underWay -= batch.length;
    } while (mayBegin());
  }

  return (call) =>
    new Promise<Answer>((resolve, reject) => {
      waiting.push({ call, resolve, reject });
      sharing.expect(shareMs(call), waiting.length);
    });
}

/** Errors from the content of one call, not its batch: data that PostgreSQL refuses, existing rows, and size limits. */
const OF_ONE_CALL = /^(?:22|23|40|54)/;

function isOfOneCall(error: unknown): boolean {
  const { code } = ((error as StoreUnavailableError).cause ?? {}) as { code?: unknown };
  return typeof code === 'string' && OF_ONE_CALL.test(code);
}

/**
 * Makes the function that runs calls: those of one key one after the other, of all keys together `width` at once. Keys
 * take turns. Calls of one key would wait for each other in the database; here they occupy no connection meanwhile.
 */
export function inTurns(width: number): <Value>(key: string, run: () => Promise<Value>) => Promise<Value> {
  /** Calls that wait behind the running ones, and calls of other keys: the first key has the next turn. */
  const running = new Map<string, (() => Promise<void>)[]>();
  const waiting = new Map<string, (() => Promise<void>)[]>();

  function start(): void {
    for (const [key, calls] of waiting) {
      if (running.size === width) return;
      waiting.delete(key);
      running.set(key, calls);
      void calls
        .shift()?.()
        .then(() => {
          running.delete(key);
          if (calls.length > 0) waiting.set(key, calls);
          start();
        });
    }
  }

  return (key, run) =>
    new Promise((resolve, reject) => {
      const call = () => run().then(resolve, reject);
      const line = running.get(key) ?? waiting.get(key);
      if (line !== undefined) line.push(call);
      else waiting.set(key, [call]);
      start();
    });
}
