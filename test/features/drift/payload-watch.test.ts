import { randomUUID } from 'node:crypto';
import pino from 'pino';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../../src/app.ts';
import { createPayloadWatch, timeOf } from '../../../src/features/drift/payload-watch.ts';
import { driftStore } from '../../../src/features/drift/store.ts';
import { buildApp } from '../../database.ts';
import { createWorkspace, eventually, type Workspace } from '../../e2e/service.ts';
import { withVerbs } from '../../store/with-verbs.ts';

const logger = pino({ level: 'silent' });
const MESSAGE = `order \${trigger.body.order.id} of \${trigger.headers["x-shop"]}`;

let workspace: Workspace;
/** It does not listen, so it looks only when told to. */
let app: SluiceApp;
/** Each test has a different flow. */
let flowId: string;
beforeAll(async () => {
  workspace = await createWorkspace();
  app = await buildApp({ folder: workspace.folder, logger, settings: { port: 0 } });
  await app.fastify.ready();
});
beforeEach(() => {
  flowId = randomUUID();
});

/** One trigger, and a step that logs a message. */
const manifestOf = (message: string, searchKeys: object) => ({
  id: flowId,
  name: 'orders',
  version: randomUUID(),
  triggers: { hook: { type: 'webhook', inputs: {}, searchKeys } },
  steps: { log: { type: 'LogMessage', inputs: { message } } },
});

async function deploy(message = MESSAGE, searchKeys: object = { event: 'body.kind' }): Promise<void> {
  const payload = manifestOf(message, searchKeys);
  const { statusCode } = await app.fastify.inject({ method: 'PUT', url: `/flows/api/flows/${flowId}`, payload });
  expect(statusCode).toBe(200);
}

/** Sends so many deliveries; returns their ids in order of arrival. */
async function send(count: number, body: unknown, headers: object = {}): Promise<string[]> {
  const payload = typeof body === 'string' ? body : JSON.stringify(body);
  const sent = { 'content-type': 'application/json', 'x-shop': 'a', ...headers };
  const request = { method: 'POST', url: `/flows/api/webhook/${flowId}`, payload, headers: sent } as const;
  const answers = await Promise.all(Array.from({ length: count }, () => app.fastify.inject(request)));
  return answers.map((answer): string => answer.json().deliveryId).sort();
}

const clock = { now: () => Date.now(), monotonic: () => performance.now() };

/** Looks once with each of so many watchers, all at the same time. */
async function look({ watchers = 1, at = clock } = {}): Promise<void> {
  const list = () =>
    app
      .triggers()
      .list()
      .filter(({ trigger }) => trigger.flowId === flowId);
  const services = { store: app.store, triggers: () => ({ list }), clock: at, logger };
  const watches = Array.from({ length: watchers }, () => createPayloadWatch(services));
  for (const watch of watches) watch.sweep();
  // A look at a trigger that has started is completed.
  await Promise.all(watches.map((watch) => watch.stop()));
}

const get = async (path: string) => (await app.fastify.inject(`/flows/api${path}`)).json();
const drifts = async (): Promise<string[]> => {
  const items: { kind: string; message: string; link: string }[] = await get('/attention');
  const own = items.filter(({ kind, link }) => kind === 'payload_drift' && link.includes(flowId));
  return own.map(({ message }) => message);
};
const figures = async () =>
  (await get(`/flows/${flowId}/paths`)).map(
    (each: { path: string; event: string | null; seen: number; looked: number }) =>
      `${each.path} of ${each.event ?? 'any'}: ${each.seen} of ${each.looked}`,
  );

const order = (kind = 'created', change: object = { id: 'o1' }) => ({ kind, order: change });

describe('a path that deliveries no longer have', () => {
  it('is told with the first delivery that lacked it, and no longer once it is there again', async () => {
    await deploy();
    await send(20, order());
    await look();
    expect(await drifts()).toEqual([]);
    const [first] = await send(3, order('created', { number: 'o1' }));
    await look();
    expect(await drifts()).toEqual([
      expect.stringMatching(
        new RegExp(
          `^orders/hook: body\\.order\\.id, a string in 20 deliveries before, is missing from 3 since .*Z \\(event created; the first is ${first}\\)$`,
        ),
      ),
    ]);
    await send(1, order());
    await look();
    expect(await drifts()).toEqual([]);
  });

  it('is not told of deliveries of another event, nor once the flow does not read it any more', async () => {
    await deploy();
    await send(20, order());
    await send(5, { kind: 'ping' });
    await look();
    expect(await drifts()).toEqual([]);
    expect(await figures()).toEqual([
      'body.kind of any: 25 of 25',
      'body.order.id of created: 20 of 20',
      'body.order.id of ping: 0 of 5',
      'headers.x-shop of created: 20 of 20',
      'headers.x-shop of ping: 5 of 5',
    ]);
    await send(3, order('created', {}));
    await look();
    expect(await drifts()).toHaveLength(1);
    await deploy(`order \${trigger.body.order.number}`);
    expect(await drifts()).toEqual([]);
  });

  it('is told of the path that tells the event, whatever event the deliveries had', async () => {
    await deploy();
    for (const kind of ['created', 'paid']) await send(10, order(kind));
    await send(3, { type: 'created', order: { id: 'o1' } });
    await look();
    expect(await drifts()).toEqual([expect.stringContaining('body.kind, a string in 20 deliveries before')]);
  });

  it('is told with the first delivery also where it lies between those that were looked at', async () => {
    await deploy(MESSAGE, {});
    await send(52, order());
    await look();
    expect(await figures()).toContain('body.order.id of any: 50 of 50');
    await send(20, order());
    const [first] = await send(60, order('created', {}));
    await look();
    expect(await drifts()).toEqual([expect.stringContaining(`the first is ${first}`)]);
  });

  it('is told of an event although far more deliveries of another one came after it', async () => {
    await deploy();
    await send(20, order());
    await look();
    const [first] = await send(8, order('created', {}));
    await send(300, { kind: 'ping', order: { id: 'o1' } });
    await look();
    expect(await drifts()).toEqual([expect.stringContaining(`is missing from 8 since`)]);
    expect((await drifts())[0]).toContain(`the first is ${first}`);
  });

  it('is told of another type, and of items of lists', async () => {
    await deploy(`\${trigger.body.items.map(i, i.sku)}`, {});
    await send(20, { items: [{ sku: 'a' }] });
    await send(5, { items: [] });
    await look();
    expect(await figures()).toEqual(['body.items of any: 25 of 25', 'body.items[].sku of any: 20 of 20']);
    await send(3, { items: [{ sku: 1 }] });
    await look();
    expect(await drifts()).toEqual([
      expect.stringContaining('body.items[].sku, a string in 20 deliveries before, is a number in 3'),
    ]);
  });

  it('is found in forms, and nowhere in what is no JSON', async () => {
    await deploy(`\${trigger.body.id}`, {});
    await send(2, 'id=7&x=1', { 'content-type': 'application/x-www-form-urlencoded' });
    await send(1, '<id>7</id>', { 'content-type': 'application/xml' });
    await send(1, '\u0000\u0001', { 'content-type': 'application/octet-stream' });
    await send(1, '{"__proto__":{"id":1}}');
    await send(1, '');
    // Nested too deeply to be read, so it adds nothing.
    await send(1, '['.repeat(2000) + ']'.repeat(2000));
    await look();
    expect(await figures()).toEqual(['body.id of any: 2 of 6']);
  });
});

describe('a watch', () => {
  it('counts each delivery once, however many watch at the same time', async () => {
    await deploy();
    await send(10, order());
    await look({ watchers: 4 });
    await look({ watchers: 2 });
    expect(await figures()).toContain('body.order.id of created: 10 of 10');
  });

  it('looks at the other triggers where one cannot be looked at', async () => {
    await deploy();
    const broken = flowId;
    flowId = randomUUID();
    await deploy();
    await send(3, order());
    let resolve = (_result: string) => {};
    const isCommitted = new Promise<string>((done) => {
      resolve = done;
    });
    const { readPayloadWatch, commitPayloadWatch } = app.store.of(driftStore);
    const store = withVerbs(app.store, driftStore, {
      readPayloadWatch: (of) => (of.flowId === broken ? Promise.reject(new Error('broken')) : readPayloadWatch(of)),
      commitPayloadWatch: async (commit) => {
        const result = await commitPayloadWatch(commit);
        if (commit.flowId === flowId) resolve(result);
        return result;
      },
    });
    const watch = createPayloadWatch({ store, triggers: app.triggers, clock, logger });
    watch.sweep();
    expect(await isCommitted).toBe('committed');
    await watch.stop();
  });

  it('tells a bounded number of events apart', async () => {
    await deploy();
    for (let n = 0; n < 40; n += 1) await send(1, order(`event ${n}`));
    await look();
    const known: string[] = await figures();
    expect(known.filter((each) => each.startsWith('body.order.id'))).toHaveLength(32);
    expect(known).toContain('body.kind of any: 40 of 40');
  });

  it('sees what comes after the clock was set back', async () => {
    await deploy();
    await send(5, order());
    await look();
    const hourAgo = Date.now() - 3_600_000;
    await look({ at: { ...clock, now: () => hourAgo } });
    const { lastId } = await app.store.of(driftStore).readPayloadWatch({ flowId, triggerKey: 'hook' });
    expect(timeOf(lastId)).toBe(hourAgo);
  });

  it('keeps no value of a delivery', async () => {
    await deploy();
    await send(25, { kind: 'created', order: { id: 'canary-of-a-value' } });
    // Longer than any part of an id, where a few digits might occur by chance.
    await send(3, { kind: 'created', order: { id: 4_711_471_147_114_711 } });
    await look();
    const { store } = app;
    const kept = JSON.stringify([
      await store.of(driftStore).sumPathCounts(flowId),
      await store.of(driftStore).listPathDrifts(),
    ]);
    expect(kept).toContain('body.order.id');
    expect(kept).not.toContain('canary');
    expect(kept).not.toContain('4711471147114711');
  });
});

describe('a dry run', () => {
  it('names paths that no delivery had, and the one that may be meant', async () => {
    await deploy();
    await send(6, order());
    const dryRun = async (message: string) => {
      const payload = [manifestOf(message, {})];
      const answer = await app.fastify.inject({ method: 'PUT', url: '/flows/api/flows?dryRun=true', payload });
      return answer.json().issues.filter(({ path }: { path: string }) => path.startsWith('steps.'));
    };
    const read = 'reads body.ordr.id, which none of the 6 newest deliveries had; did you mean body.order.id?';
    expect(await dryRun(`\${trigger.body.ordr.id}`)).toEqual([
      { severity: 'warning', file: '[0]', path: 'steps.log.inputs.message', message: read },
    ]);
    expect(await dryRun(`\${trigger.body.total}`)).toMatchObject([
      { message: 'reads body.total, which none of the 6 newest deliveries had' },
    ]);
    expect(await dryRun(`\${has(trigger.body.total) ? trigger.body.total : 0} \${trigger.body.order.id}`)).toEqual([]);
  });
});

describe('a path whose lack made a run fail', () => {
  beforeAll(async () => void (await app.listen()));

  const ended = async (count: number) => {
    const failed = async () => (await get(`/runs?flowId=${flowId}&status=Failed&take=100`)).length;
    await eventually(failed, (found) => found >= count);
  };

  it.each([
    ['the path', `\${trigger.body.order.id}`, order('created', {})],
    ['what is around it', `\${trigger.body.order.id}`, { kind: 'created' }],
    ['its key in brackets', `\${trigger.body["order"]["id"]}`, order('created', {})],
  ])('is told from the first such run on, whichever names %s', async (_what, message, body) => {
    await deploy(message);
    await send(20, order());
    await look();
    await send(1, body);
    await ended(1);
    await look();
    expect(await drifts()).toEqual([
      expect.stringContaining(
        'body.order.id, a string in 20 deliveries before, is missing from 1, whose runs failed for lack of it, since',
      ),
    ]);
    await send(1, order());
    await look();
    expect(await drifts()).toEqual([]);
  });

  it('is told where only few of many deliveries of one event lack it', async () => {
    await deploy();
    await send(20, order());
    await look();
    const sent = Array.from({ length: 5 }, async () => {
      await send(1, order('created', {}));
      await send(60, order());
    });
    await Promise.all(sent);
    await ended(5);
    await look();
    expect(await drifts()).toEqual([expect.stringContaining('whose runs failed for lack of it')]);
  });

  it('is told where the flow asks for the path elsewhere', async () => {
    await deploy(`\${has(trigger.body.order.id) ? 'yes' : 'no'} \${trigger.body.order.id}`);
    await send(20, order());
    await look();
    await send(1, order('created', {}));
    await ended(1);
    await look();
    expect(await drifts()).toHaveLength(1);
  });

  it('is not told of a run that failed by something else', async () => {
    await deploy(`\${has(trigger.body.order.id) ? 'yes' : string(trigger.body.nothing)}`);
    await send(20, order());
    await look();
    await send(1, order('created', {}));
    await ended(1);
    await look();
    expect((await drifts()).filter((message) => message.includes('order.id'))).toEqual([]);
  });
});
