import { describe, expect, it } from 'vitest';
import { createAskLog, LogError } from '../../../src/features/reconcile/ask-log.ts';
import type { SourceRequest } from '../../../src/features/reconcile/source.ts';
import { json, serveApi } from './fakes/fake-api.ts';

type Hosts = Parameters<typeof createAskLog>[0]['hosts'];

const LONG = json({ padding: 'é'.repeat(1_500_000) });
const SHORT = json([1]);
/** The longest answer that is read. */
const LARGEST = json('x'.repeat(33_554_430));

/** Asks a log, and records how each turn at its host ended. */
async function asking(answer = LONG) {
  const { url } = await serveApi(() => answer);
  const ends: string[] = [];
  const hosts: Hosts = {
    ask: async () => ({ kind: 'go', probed: undefined, end: ({ kind }) => void ends.push(kind) }),
  };
  const ask = createAskLog({ egressAllow: ['127.0.0.1'], hosts, now: Date.now });
  const request: SourceRequest = { method: 'GET', url: `${url}/log`, headers: {} };
  const look = <Result>(use: () => Result | Promise<Result>, signal = new AbortController().signal) =>
    ask(request, { caller: 'test', secrets: [], signal }, use);
  return { ask, look, ends, request };
}

describe('answers', () => {
  it('that are long are had one at a time, until what is made of them is done', async () => {
    const { look } = await asking();
    let [inUse, most] = [0, 0];
    const use = async () => {
      inUse += 1;
      most = Math.max(most, inUse);
      // Long enough for another one to come.
      await fetchShort();
      inUse -= 1;
    };
    const other = await asking(SHORT);
    const fetchShort = () => other.look(() => undefined);
    await Promise.all(Array.from({ length: 5 }, () => look(use)));
    expect(most).toBe(1);
  });

  it('that are short are had together', async () => {
    const { look } = await asking(SHORT);
    let [arrived, all] = [0, () => {}];
    const together = new Promise<void>((resolve) => {
      all = resolve;
    });
    const use = () => {
      arrived += 1;
      if (arrived === 5) all();
      return together;
    };
    await Promise.all(Array.from({ length: 5 }, () => look(use)));
    expect(arrived).toBe(5);
  });

  it('that are long are had by the next one where what is made of one fails, or a waiting one is given up', async () => {
    const { look } = await asking();
    const leaving = new AbortController();
    let waiting: Promise<unknown> | undefined;
    let third: Promise<string> | undefined;
    const first = look(async () => {
      waiting = look(() => 'given up', leaving.signal);
      third = look(() => 'third');
      leaving.abort();
      await expect(waiting).rejects.toThrow('aborted');
      throw new Error('not understood');
    });
    await expect(first).rejects.toThrow('not understood');
    expect(await third).toBe('third');
  });

  it('come as they were sent, whatever their length', async () => {
    for (const answer of [SHORT, LONG, LARGEST]) {
      const { ask, request, ends } = await asking(answer);
      const asked = { caller: 'test', secrets: [], signal: new AbortController().signal };
      expect(await ask(request, asked, ({ text }) => text === answer.body)).toBe(true);
      expect(ends[0]).toBe('answered');
    }
  });

  it('of more than 32 MiB are not read to their end', async () => {
    const { look } = await asking({ status: 200, body: 'x'.repeat(33_554_433) });
    const error = await look(() => 'read').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LogError);
    expect(error).toMatchObject({ failure: 'not_understood', message: 'answered more than 33554432 bytes' });
  });
});
