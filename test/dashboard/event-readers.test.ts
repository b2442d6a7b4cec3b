import { Writable } from 'node:stream';
import pino from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { createEventStreams, STREAM_LIMITS } from '../../src/dashboard/api/event-stream.ts';
import { createLiveEvents } from '../../src/telemetry/events.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

/** Takes as much as its high-water mark allows, and more once `read` is called. */
function slowReader() {
  let taken = '';
  let release: (() => void) | undefined;
  let isReading = false;
  const stream = new Writable({
    highWaterMark: 64,
    write(chunk, _encoding, done) {
      taken += String(chunk);
      if (isReading) done();
      else release = done;
    },
  });
  onTestFinished(() => void stream.destroy());
  return {
    stream,
    taken: () => taken,
    async read() {
      isReading = true;
      release?.();
      await new Promise((done) => setImmediate(done));
    },
  };
}

function start(limits: Partial<typeof STREAM_LIMITS> = {}) {
  const live = createLiveEvents();
  const metrics = createMetrics();
  const logged: Record<string, unknown>[] = [];
  const logger = pino({ level: 'info' }, { write: (line) => logged.push(JSON.parse(line)) });
  const streams = createEventStreams({ live, metrics, logger, limits: { ...STREAM_LIMITS, ...limits } });
  const join = (actor = 'reader') => {
    const reader = slowReader();
    const { leave } = streams.add({ stream: reader.stream, actor, told: (event) => event });
    return { ...reader, leave };
  };
  const emit = (text: string) => live.emit({ type: 'run.changed', runId: null, flowId: null, data: { text } });
  const sampled = async (name: string) =>
    (await metrics.registry.getSingleMetricAsString(name)).split('\n').filter((line) => !line.startsWith('#'));
  return { streams, join, emit, logged, sampled };
}

const textsIn = (taken: string) => [...taken.matchAll(/"text":"(\w+)"/g)].map(([, text]) => text);

it('a reader that pauses gets all that happened meanwhile, in order', async () => {
  const { join, emit } = start();
  const reader = join();
  const sent = Array.from({ length: 50 }, (_, index) => `n${index}`);
  for (const text of sent) emit(text);
  expect(textsIn(reader.taken()).length).toBeLessThan(sent.length);
  await reader.read();
  expect(textsIn(reader.taken())).toEqual(sent);
});

it('a reader that falls behind its bound is told so and let go; the others miss nothing', async () => {
  const { join, emit, logged, sampled } = start({ bytesOfOne: 1_000 });
  const [slow, quick] = [join('script'), join()];
  await quick.read();
  for (let n = 0; n < 40; n += 1) emit(`n${n}`);
  await slow.read();
  expect(slow.taken()).toMatch(/event: stream\.ended\ndata: \{"reason":"too_slow"\}\n\n$/);
  expect(slow.stream.writableEnded).toBe(true);
  expect(textsIn(quick.taken())).toHaveLength(40);
  expect(logged).toMatchObject([{ level: 40, actor: 'script', msg: expect.stringContaining('too slowly') }]);
  expect(await sampled('sluice_event_readers_refused_total')).toContain(
    'sluice_event_readers_refused_total{reason="too_slow"} 1',
  );
  expect(await sampled('sluice_event_readers')).toEqual(['sluice_event_readers 1']);
});

it('what waits for all readers together is bounded: who is furthest behind is let go', async () => {
  const { join, emit, logged } = start({ bytes: 2_500 });
  const first = join('first');
  for (let n = 0; n < 20; n += 1) emit(`n${n}`);
  join('second');
  join('third');
  for (let n = 0; n < 20; n += 1) emit(`n${n}`);
  expect(logged.map(({ actor }) => actor)).toEqual(['first']);
  await first.read();
  expect(first.taken()).toContain('too_slow');
});

it('a reader that does not take the end either is cut off', async () => {
  const { join, emit } = start({ bytesOfOne: 100, leaveMs: 1 });
  const reader = join();
  const closed = new Promise((done) => reader.stream.once('close', done));
  for (let n = 0; n < 10; n += 1) emit(`n${n}`);
  await closed;
  expect(reader.taken()).not.toContain('too_slow');
});

it('no more may read than there is room for, until one leaves', async () => {
  const { streams, join, sampled } = start({ readers: 2 });
  const [one] = [join(), join()];
  expect(() => streams.requireRoom('reader')).toThrow('2 event streams are open');
  expect(await sampled('sluice_event_readers_refused_total')).toContain(
    'sluice_event_readers_refused_total{reason="too_many"} 1',
  );
  one.leave();
  streams.requireRoom('reader');
});

it('a credential with many streams gives way to another, until both have as many', async () => {
  const { streams, join, logged } = start({ readers: 4 });
  const greedy = Array.from({ length: 4 }, () => join('greedy'));
  for (let others = 0; others < 2; others += 1) {
    streams.requireRoom('quiet');
    join('quiet');
  }
  expect(greedy.map(({ stream }) => stream.writableEnded)).toEqual([false, false, true, true]);
  expect(() => streams.requireRoom('quiet')).toThrow('4 event streams are open');
  expect(() => streams.requireRoom('greedy')).toThrow('4 event streams are open');
  await greedy[3]?.read();
  expect(greedy[3]?.taken()).toMatch(/event: stream\.ended\ndata: \{"reason":"too_many"\}\n\n$/);
  expect(logged).toMatchObject(Array(2).fill({ level: 40, actor: 'greedy' }));
});
