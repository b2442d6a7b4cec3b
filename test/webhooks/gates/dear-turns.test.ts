import { expect, it } from 'vitest';
import { compileBodySchema } from '../../../src/manifest/body-schema.ts';
import { createDearTurns } from '../../../src/webhooks/gates/dear-turns.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import { runGates } from '../../../src/webhooks/pipeline.ts';
import { FakeClock, sampleDelivery, sampleSettings, sampleTrigger } from '../samples.ts';

const never = new AbortController().signal;

/** Turns whose pauses end when the test says so. */
function stagedTurns() {
  const clock = new FakeClock();
  const done: string[] = [];
  const pauses: { readonly ms: number; end(): void }[] = [];
  const pause = (ms: number) => new Promise<void>((resolve) => void pauses.push({ ms, end: resolve }));
  const turns = createDearTurns(clock, pause);
  const ask = (key: string, signal = never) =>
    turns.run(
      key,
      () => {
        clock.advance(200);
        return done.push(key);
      },
      signal,
    );
  const next = async () => {
    pauses.at(-1)?.end();
    await new Promise(setImmediate);
  };
  return { ask, done, pauses, next };
}

it('does one piece of work at a time, and pauses for as long as each took', async () => {
  const { ask, done, pauses, next } = stagedTurns();
  const all = [ask('a'), ask('a'), ask('a')];
  expect(done).toHaveLength(1);
  await next();
  expect(done).toHaveLength(2);
  await next();
  expect(done).toHaveLength(3);
  await Promise.all(all);
  expect(pauses.map(({ ms }) => ms)).toEqual([200, 200, 200]);
});

it('keeps no key waiting for all the work of another', async () => {
  const { ask, done, next } = stagedTurns();
  const all = [ask('busy'), ask('busy'), ask('busy'), ask('quiet')];
  for (const _ of all) await next();
  await Promise.all(all);
  expect(done.indexOf('quiet')).toBeLessThan(done.lastIndexOf('busy'));
});

it('does nothing for who no longer waits, and goes on after work that throws', async () => {
  const { ask, done, next } = stagedTurns();
  const gone = new AbortController();
  const first = ask('a');
  const left = ask('b', gone.signal).catch(() => 'left');
  gone.abort();
  await next();
  await Promise.all([first, ask('c')]);
  expect(await left).toBe('left');
  expect(done).toEqual(['a', 'c']);
  const turns = createDearTurns(new FakeClock(), async () => {});
  const fails = () => {
    throw new Error('no');
  };
  await expect(turns.run('a', fails, never)).rejects.toThrow('no');
  expect(await turns.run('a', () => 1, never)).toBe(1);
});

it('gives the loop back between the checks of long bodies that arrive at once', async () => {
  let atOnce = 0;
  let most = 0;
  const schema = compileBodySchema({ type: 'array' });
  if ('error' in schema) throw new Error(schema.error);
  const bodySchema = {
    ...schema,
    mistakesIn() {
      atOnce += 1;
      most = Math.max(most, atOnce);
      setImmediate(() => {
        atOnce = 0;
      });
      return [];
    },
  };
  const { gates } = gatePreparer(gateChain(), sampleSettings()).prepare(sampleTrigger({}, { bodySchema }));
  const body = Buffer.alloc(8192, ' ');
  await Promise.all(Array.from({ length: 6 }, () => runGates(gates, sampleDelivery({ body }), 'Enforce')));
  expect(most).toBe(1);
});
