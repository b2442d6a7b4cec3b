import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import pino from 'pino';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { RunNotices } from '../../src/store/postgres/run-notices.ts';
import type { Change, Store } from '../../src/store/store.ts';
import { until } from '../eventually.ts';
import { temporaryFolder } from '../temporary.ts';
import { borrowSchema, openReplicas } from './schemas.ts';

const FLOW_ID = '0b7c9d10-0000-4000-8000-000000000001';
const MANIFEST = {
  id: FLOW_ID,
  name: 'Orders',
  version: '1.0',
  triggers: { manual: { type: 'manual', inputs: {} } },
  steps: { a: { type: 'NoOp' } },
};

/** Two services on one new schema; returns their addresses. */
async function twoServices(): Promise<[string, string]> {
  const databaseUrl = inject('postgresUrl');
  const databaseSchema = borrowSchema();
  const folder = temporaryFolder('live');
  await writeFile(join(folder, 'orders.json'), JSON.stringify(MANIFEST));
  const start = async (replicaName: string) => {
    const shared = { databaseUrl, databaseSchema, manifests: folder, host: '127.0.0.1', port: 0, drainSeconds: 0 };
    const app = await buildApp({ settings: { ...shared, replicaName }, logger: pino({ level: 'silent' }) });
    onTestFinished(() => app.close());
    return app.listen();
  };
  return [await start('one'), await start('two')];
}

/** Reads an event stream until its text is as wanted. */
async function readUntil(response: Response, isThere: (text: string) => boolean): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const part of response.body ?? []) {
    text += decoder.decode(part, { stream: true });
    if (isThere(text)) return text;
  }
  throw new Error(`the stream ended with ${text}`);
}

test('a page on one replica sees a run that another executes', async () => {
  const [one, two] = await twoServices();
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const page = await fetch(`${one}/flows/api/events/stream`, { signal: end.signal });
  const started: string[] = [];
  const isTold = (text: string) =>
    started.some((runId) => text.includes(`event: run.changed\ndata: {"runId":"${runId}"}`));
  // Repeated until the other replica knows that a page watches.
  const triggering = (async () => {
    while (!end.signal.aborted) {
      const run = await fetch(`${two}/flows/api/flows/${FLOW_ID}/trigger`, { method: 'POST' });
      started.push(((await run.json()) as { runId: string }).runId);
      await wait(20);
    }
  })();
  const text = await readUntil(page, isTold);
  end.abort();
  await triggering;
  // The other replica ran it; local runs have different events.
  expect(text).not.toContain('event: run.started');
});

describe('what replicas tell each other of runs', () => {
  test('reaches one that watches, and no other', async () => {
    const { stores } = await openReplicas(['one', 'two', 'three'], borrowSchema());
    const [one, two, three] = stores as [Store, Store, Store];
    const next = async (store: Store) => {
      for await (const change of store.changes) if (change.kind === 'runs') return change;
    };
    const ids = [randomUUID(), randomUUID()];
    const heard = next(two);
    two.watchRuns(true);
    let change: Change | undefined;
    void heard.then((value) => {
      change = value;
    });
    await until(
      async () => {
        for (const id of ids) one.runChanged(id);
        await one.ping();
        return change;
      },
      (told) => told !== undefined,
    );
    expect(change).toEqual({ kind: 'runs', runIds: ids });
    two.watchRuns(false);
    await three.close();
  });

  /** Collects what would be sent as notices. */
  function notices() {
    const sent: { kind: string; runIds?: readonly string[] }[] = [];
    const own = new RunNotices((notice) => sent.push(notice));
    onTestFinished(() => own.close());
    const sentOnce = () => until(() => sent.length > 0);
    return { own, sent, sentOnce };
  }

  test('is nothing while nobody watches', async () => {
    const { own, sent, sentOnce } = notices();
    own.changed('a');
    own.heard({ kind: 'watch', by: 'other' });
    own.changed('b');
    await sentOnce();
    expect(sent).toMatchObject([{ kind: 'runs', runIds: ['b'] }]);
  });

  test('is one notice for all that happened in a tenth of a second, whatever happened to how many', async () => {
    const { own, sent, sentOnce } = notices();
    own.heard({ kind: 'watch', by: 'other' });
    for (let n = 0; n < 1000; n += 1) own.changed(`run ${n % 100}`);
    await sentOnce();
    expect(sent).toMatchObject([{ runIds: Array.from({ length: 100 }, (_, n) => `run ${n}`) }]);
    sent.length = 0;
    // More runs than a notice can name, so it means any run.
    for (let n = 0; n < 1000; n += 1) own.changed(randomUUID());
    await sentOnce();
    expect(sent).toMatchObject([{ kind: 'runs', runIds: [] }]);
  });

  test('is not heard by who said it', async () => {
    const { own, sent } = notices();
    own.watch(true);
    const [watch] = sent;
    if (watch?.kind !== 'watch') throw new Error('nothing was said');
    own.heard(watch as never);
    own.changed('a');
    own.heard({ kind: 'watch', by: 'other' });
    own.changed('b');
    await until(() => sent.length > 1);
    expect(sent[1]).toMatchObject({ runIds: ['b'] });
  });
});
