import { describe, expect, test } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { grouped, inTurns } from '../../src/store/postgres/groups.ts';

interface Batch {
  readonly calls: readonly number[];
  commit(answers?: readonly (string | undefined)[]): void;
  fail(error: Error): void;
}

/** A group whose transactions end when the test says so. */
function group(width: number) {
  const batches: Batch[] = [];
  const alone: number[] = [];
  const call = grouped<number, string>({
    shareMs: () => 0,
    width,
    runAll: (calls) =>
      new Promise((resolve, fail) => {
        const commit: Batch['commit'] = (answers) => resolve(answers ?? calls.map((n) => `answer ${n}`));
        batches.push({ calls, commit, fail });
      }),
    async runAlone(n) {
      alone.push(n);
      if (n < 0) throw new Error(`${n} is negative`);
      return `alone ${n}`;
    },
  });
  const answered: string[] = [];
  const ask = async (n: number) => {
    const answer = await call(n);
    answered.push(answer);
    return answer;
  };
  return { batches, alone, answered, ask };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));
const failedWith = (code: string) =>
  new StoreUnavailableError('failed', { cause: Object.assign(new Error('failed'), { code }) });

describe('a group', () => {
  test('puts the calls of one turn into one transaction, and what comes meanwhile into the next', async () => {
    const { batches, ask } = group(1);
    const first = [ask(1), ask(2)];
    await turn();
    const second = [ask(3)];
    await turn();
    second.push(ask(4));
    expect(batches.map(({ calls }) => calls)).toEqual([[1, 2]]);
    batches[0]?.commit();
    expect(await Promise.all(first)).toEqual(['answer 1', 'answer 2']);
    expect(batches.map(({ calls }) => calls)).toEqual([
      [1, 2],
      [3, 4],
    ]);
    batches[1]?.commit();
    expect(await Promise.all(second)).toEqual(['answer 3', 'answer 4']);
  });

  test('has as many transactions under way as it may, each of at most 128 calls', async () => {
    const { batches, ask } = group(2);
    const calls = Array.from({ length: 300 }, (_, n) => ask(n));
    await turn();
    calls.push(ask(300), ask(301));
    await turn();
    expect(batches.map(({ calls: each }) => each.length)).toEqual([128, 128]);
    for (const at of [0, 1, 2]) {
      batches[at]?.commit();
      await turn();
    }
    expect(batches.map(({ calls: each }) => each.length)).toEqual([128, 128, 46]);
    expect(await Promise.all(calls)).toHaveLength(302);
  });

  test.each([
    [3, 2, 3],
    [100, 15, 16],
  ])('begins none next to one of %i calls with %i, and one with %i', async (first, few, enough) => {
    const { batches, ask } = group(2);
    const calls = Array.from({ length: first }, (_, n) => ask(n));
    await turn();
    for (let n = 0; n < few; n += 1) calls.push(ask(n));
    await turn();
    expect(batches.map(({ calls: each }) => each.length)).toEqual([first]);
    for (let n = few; n < enough; n += 1) calls.push(ask(n));
    await turn();
    expect(batches.map(({ calls: each }) => each.length)).toEqual([first, enough]);
    calls.push(ask(0));
    await turn();
    batches[1]?.commit();
    await turn();
    expect(batches.length).toBe(2);
    batches[0]?.commit();
    await turn();
    expect(batches.map(({ calls: each }) => each.length)).toEqual([first, enough, 1]);
    batches[2]?.commit();
    expect(await Promise.all(calls)).toHaveLength(first + enough + 1);
  });

  test('answers nobody before the commit', async () => {
    const { batches, answered, ask } = group(1);
    const calls = [ask(1), ask(2)];
    await turn();
    expect(answered).toEqual([]);
    batches[0]?.commit();
    await Promise.all(calls);
    expect(answered).toEqual(['answer 1', 'answer 2']);
  });

  test('runs those alone that the transaction left, after it', async () => {
    const { batches, alone, ask } = group(1);
    const calls = [ask(1), ask(2), ask(3)];
    await turn();
    expect(alone).toEqual([]);
    batches[0]?.commit(['answer 1', undefined, 'answer 3']);
    expect(await Promise.all(calls)).toEqual(['answer 1', 'alone 2', 'answer 3']);
    expect(alone).toEqual([2]);
  });

  test('does not wait for a call that runs alone', async () => {
    let end = () => {};
    const started: string[] = [];
    const call = grouped<number, string>({
      shareMs: () => 0,
      width: 1,
      runAll: async (calls) => calls.map((n) => (n < 0 ? undefined : `answer ${n}`)),
      async runAlone(n) {
        started.push(`alone ${n}`);
        await new Promise<void>((resolve) => (end = resolve));
        return `alone ${n}`;
      },
    });
    const alone = [call(-1), call(-2)];
    expect(await call(3)).toBe('answer 3');
    expect(await call(4)).toBe('answer 4');
    expect(started).toEqual(['alone -1']);
    end();
    expect(await alone[0]).toBe('alone -1');
    await turn();
    end();
    expect(await alone[1]).toBe('alone -2');
  });

  test.each(['23505', '22P05', '40P01', '54000'])(
    'runs each alone where the transaction failed with %s',
    async (code) => {
      const { batches, alone, ask } = group(1);
      const calls = [ask(1), ask(-2), ask(3)];
      await turn();
      batches[0]?.fail(failedWith(code));
      expect(await Promise.allSettled(calls)).toEqual([
        { status: 'fulfilled', value: 'alone 1' },
        { status: 'rejected', reason: new Error('-2 is negative') },
        { status: 'fulfilled', value: 'alone 3' },
      ]);
      expect(alone).toEqual([1, -2, 3]);
    },
  );

  test.each(['57P01', '53300', '08006', 'ECONNREFUSED'])(
    'fails all at once where the store is away: %s',
    async (code) => {
      const { batches, alone, ask } = group(1);
      const calls = [ask(1), ask(2)];
      await turn();
      batches[0]?.fail(failedWith(code));
      const statuses = (await Promise.allSettled(calls)).map(({ status }) => status);
      expect(statuses).toEqual(['rejected', 'rejected']);
      expect(alone).toEqual([]);
    },
  );

  test('does not try a single call again', async () => {
    const { batches, alone, ask } = group(1);
    const call = ask(1);
    await turn();
    batches[0]?.fail(failedWith('23505'));
    await expect(call).rejects.toThrow('failed');
    expect(alone).toEqual([]);
  });
});

describe('calls that take turns', () => {
  /** Each call runs until it is ended. */
  function turns(width: number) {
    const inTurn = inTurns(width);
    const started: string[] = [];
    const ends = new Map<string, (error?: Error) => void>();
    const ask = (name: string) =>
      inTurn(name.charAt(0), () => {
        started.push(name);
        return new Promise<string>((resolve, reject) => {
          ends.set(name, (error) => (error === undefined ? resolve(name) : reject(error)));
        });
      });
    const end = async (name: string, error?: Error) => {
      ends.get(name)?.(error);
      await turn();
    };
    return { ask, started, end };
  }

  test('run one after the other where their key is the same, and so many at once of all keys', async () => {
    const { ask, started, end } = turns(2);
    const calls = ['a1', 'a2', 'b1', 'c1'].map(ask);
    expect(started).toEqual(['a1', 'b1']);
    await end('b1');
    await end('a1');
    expect(started).toEqual(['a1', 'b1', 'c1', 'a2']);
    await end('c1');
    await end('a2');
    expect(await Promise.all(calls)).toEqual(['a1', 'a2', 'b1', 'c1']);
  });

  test('come after those of other keys, however many of their own wait', async () => {
    const { ask, started, end } = turns(1);
    for (const name of ['a1', 'a2', 'a3', 'b1', 'b2']) void ask(name);
    for (const name of ['a1', 'b1', 'a2', 'b2']) await end(name);
    expect(started).toEqual(['a1', 'b1', 'a2', 'b2', 'a3']);
  });

  test('go on after one that fails', async () => {
    const { ask, end } = turns(1);
    const [failing, next] = [ask('a1'), ask('a2')];
    void end('a1', new Error('it failed'));
    await expect(failing).rejects.toThrow('it failed');
    await end('a2');
    expect(await next).toBe('a2');
  });
});
