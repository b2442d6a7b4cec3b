import { PassThrough } from 'node:stream';
import { finished } from 'node:stream/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BODY_IDLE_MS, bodyBudget, readBody } from '../../src/webhooks/read-delivery.ts';

const PLENTY = 1_000_000;

function reading(maxBytes = 100, budget = bodyBudget(PLENTY), contentLength?: string) {
  const stream = new PassThrough();
  const allowance = budget.open('client');
  const body = readBody(stream, contentLength, { maxBytes, allowance });
  // The test awaits it later; until then, a rejection would be unhandled.
  body.catch(() => {});
  return { stream, allowance, body };
}

describe('a body', () => {
  it('is the bytes that came, however they were cut', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 10 }), async (chunks) => {
        const { stream, body } = reading(1000);
        for (const chunk of chunks) stream.write(Buffer.from(chunk));
        stream.end();
        expect(await body).toEqual(Buffer.concat(chunks));
      }),
    );
  });

  it('keeps its bytes, whatever becomes of a memory that others use too', async () => {
    const { stream, body } = reading();
    const shared = Buffer.from('--body--');
    stream.end(shared.subarray(2, 6));
    const read = await body;
    shared.fill('x');
    expect(String(read)).toBe('body');
  });

  it('over the cap is refused before a byte is read where its length is announced, else with the byte that is too much', async () => {
    const announced = reading(10, bodyBudget(PLENTY), '11');
    await expect(announced.body).rejects.toMatchObject({ statusCode: 413 });
    const { stream, body } = reading(10);
    stream.write(Buffer.alloc(10));
    stream.write(Buffer.alloc(1));
    await expect(body).rejects.toMatchObject({ statusCode: 413 });
  });

  it('that is refused is read on and dropped, so that its sender gets to read the answer', async () => {
    const { stream, body } = reading(10);
    const sent = finished(stream);
    for (let count = 0; count < 100; count += 1) stream.write(Buffer.alloc(10_000));
    stream.end();
    await expect(body).rejects.toMatchObject({ statusCode: 413 });
    await sent;
  });

  it('whose sender hangs up is 400', async () => {
    const { stream, body } = reading();
    stream.write('abc');
    stream.destroy(new Error('aborted'));
    await expect(body).rejects.toMatchObject({ statusCode: 400 });
  });

  it('counts as it arrives: one that is announced and not sent takes nothing', async () => {
    const budget = bodyBudget(40);
    const silent = Array.from({ length: 100 }, () => reading(10, budget, '10'));
    const { stream, body } = reading(10, budget, '10');
    stream.end(Buffer.alloc(10));
    expect(await body).toHaveLength(10);
    for (const each of silent) each.stream.destroy();
  });

  it('for which no memory is left is 503', async () => {
    const budget = bodyBudget(40);
    const first = reading(10, budget);
    first.stream.end(Buffer.alloc(10));
    await first.body;
    const second = reading(10, budget);
    second.stream.end(Buffer.alloc(10));
    await expect(second.body).rejects.toMatchObject({ statusCode: 503 });
    first.allowance.release();
    const third = reading(10, budget);
    third.stream.end(Buffer.alloc(10));
    expect(await third.body).toHaveLength(10);
  });
});

describe('a body that stops arriving', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('is cut after five seconds without a byte', async () => {
    const { body } = reading();
    vi.advanceTimersByTime(BODY_IDLE_MS);
    await expect(body).rejects.toMatchObject({ statusCode: 408 });
  });

  it('is not cut while bytes come in, however slowly all of it comes', async () => {
    const { stream, body } = reading();
    for (let count = 0; count < 10; count += 1) {
      vi.advanceTimersByTime(BODY_IDLE_MS - 1);
      const arrived = new Promise((done) => stream.once('data', done));
      stream.write('a');
      await arrived;
    }
    vi.advanceTimersByTime(BODY_IDLE_MS);
    await expect(body).rejects.toMatchObject({ statusCode: 408 });
  });

  it('leaves no timer behind once it is there', async () => {
    const { stream, body } = reading();
    stream.end('abc');
    await body;
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('the memory of all bodies', () => {
  it('is a quarter for one client at most, and all of it for several', () => {
    const budget = bodyBudget(100);
    const first = budget.open('a');
    expect(first.take(25)).toBe(true);
    expect(budget.open('a').take(1)).toBe(false);
    for (const client of ['b', 'c', 'd']) expect(budget.open(client).take(25)).toBe(true);
    expect(budget.open('e').take(1)).toBe(false);
    first.release();
    expect(budget.open('e').take(25)).toBe(true);
  });

  it('is never given out twice, and given back once, in any order', () => {
    const step = fc.record({
      client: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      bytes: fc.nat({ max: 40 }),
      isRelease: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const budget = bodyBudget(100);
        const held = new Map<string, { bytes: number; release: () => void }>();
        for (const { client, bytes, isRelease } of steps) {
          const own = held.get(client);
          if (isRelease && own !== undefined) {
            own.release();
            own.release();
            held.delete(client);
            continue;
          }
          const total = [...held.values()].reduce((sum, each) => sum + each.bytes, 0);
          const allowance = own === undefined ? budget.open(client) : undefined;
          if (allowance === undefined) continue;
          expect(allowance.take(bytes)).toBe(bytes <= 25 && total + bytes <= 100);
          held.set(client, { bytes: bytes <= 25 && total + bytes <= 100 ? bytes : 0, release: allowance.release });
        }
        for (const each of held.values()) each.release();
        expect(['v', 'w', 'x', 'y'].every((client) => budget.open(client).take(25))).toBe(true);
      }),
    );
  });

  it('takes nothing for a body whose answer is gone', () => {
    const budget = bodyBudget(100);
    const allowance = budget.open('a');
    allowance.release();
    expect(allowance.take(1)).toBe(false);
  });
});
