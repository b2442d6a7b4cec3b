import { createHmac } from 'node:crypto';
import { EventEmitter } from 'node:events';
import pino from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { SettingsInput } from '../../../src/config/settings-schema.ts';
import { createFlowAnswers } from '../../../src/features/respond/flow-answers.ts';
import { createUnfitAnswers } from '../../../src/features/respond/unfit-answers.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { answerOf } from '../../../src/model/answer.ts';
import type { LiveEvent } from '../../../src/telemetry/events.ts';
import { eventually } from '../../eventually.ts';
import { type Gateway, NOW, type Sent, startGateway } from '../../publishers/gateway.ts';

const KEY = 'a key of enough bytes';
const FLOW = '0c000000-0000-4000-8000-000000000003';

const reply = (value: unknown) => ({ type: 'Transform', inputs: { value } });
const HELLO = {
  status: 201,
  headers: { 'Content-Type': 'text/plain', 'Cache-Control': 'max-age=1', 'Set-Cookie': 'a=b' },
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of a manifest.
  body: 'hello ${trigger.body.name}',
};
const never = { type: 'WaitForSignal', inputs: { signalName: 'never' } };

async function open(
  steps: object,
  { withinSeconds = 20, ...inputs }: WebhookInputs & { withinSeconds?: number } = {},
  settings: SettingsInput = {},
): Promise<Gateway> {
  const hook = {
    ...{ webhookSlug: 'hook', webhookSignatureScheme: 'GitHub', webhookHmacKey: KEY },
    webhookNonceHeader: 'X-GitHub-Delivery',
    webhookRespond: { step: 'reply', withinSeconds },
    ...inputs,
  };
  const manifest = { id: FLOW, name: 'replying', version: '1', triggers: { hook: { type: 'webhook', inputs: hook } } };
  return startGateway({
    triggers: {},
    others: { replying: { ...manifest, steps } },
    settings: { refusedDeploys: 'fail', ...settings },
  });
}

function push(value: unknown, id = 'id-1', key = KEY): Sent {
  const body = JSON.stringify(value);
  const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
  const headers = { 'content-type': 'application/json', 'x-hub-signature-256': signature, 'x-github-delivery': id };
  return { headers, body };
}

describe('a trigger with webhookRespond', () => {
  it('answers with the output of the step: status, body and the headers that it may say', async () => {
    const gateway = await open({ reply: reply(HELLO) });
    const answer = await gateway.deliver('hook', push({ name: 'Ada' }));
    expect(answer).toMatchObject({ status: 201, text: 'hello Ada' });
    expect(answer.headers).toMatchObject({ 'content-type': 'text/plain', 'cache-control': 'max-age=1' });
    expect(answer.headers).not.toHaveProperty('set-cookie');
    expect(answer.headers['sluice-delivery']).toBe((await gateway.latestDelivery()).id);
    expect(await gateway.countRuns()).toBe(1);
  });

  it('waits for a step behind others', async () => {
    const gateway = await open({
      first: { type: 'NoOp', inputs: {} },
      second: { type: 'NoOp', inputs: {}, runAfter: { first: ['Succeeded'] } },
      reply: { ...reply({ body: { type: 4 } }), runAfter: { second: ['Succeeded'] } },
    });
    const answer = await gateway.deliver('hook', push({}));
    expect(answer).toMatchObject({ status: 200, text: '{"type":4}' });
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  });

  it('gives the fixed answer where the step is late, and the run goes on', async () => {
    const gateway = await open(
      { wait: never, reply: { ...reply(HELLO), runAfter: { wait: ['Succeeded'] } } },
      { withinSeconds: 0.1 },
    );
    const answer = JSON.parse((await gateway.deliver('hook', push({}))).text);
    expect(answer).toEqual({ runId: expect.any(String), deliveryId: expect.any(String) });
    expect(JSON.parse(await gateway.get(`/flows/api/runs/${answer.runId}`))).toMatchObject({ status: 'Running' });
  });

  it.each<[string, object]>([
    ['fails', { reply: { type: 'HttpRequest', inputs: { url: 'http://127.0.0.1:1/' } } }],
    ['is skipped', { reply: { ...reply(HELLO), runAfter: { first: [{ when: 'true' }] } }, first: { type: 'NoOp' } }],
  ])('gives the fixed answer at once where the step %s', async (_, steps) => {
    const gateway = await open(
      'first' in steps
        ? {
            first: { type: 'NoOp' },
            reply: {
              ...reply(HELLO),
              runAfter: { first: { statuses: ['Succeeded'], when: 'trigger.body.name == 1' } },
            },
          }
        : steps,
    );
    expect(JSON.parse((await gateway.deliver('hook', push({ name: 'a' }))).text)).toHaveProperty('runId');
  });

  it('gives the fixed answer to an output that is none, and attention says so', async () => {
    const gateway = await open({ reply: reply({ status: 500, body: 'x' }) });
    expect(await gateway.deliver('hook', push({}))).toMatchObject({ status: 200 });
    const attention = JSON.parse(await gateway.get('/flows/api/attention'));
    const item = attention.find(({ kind }: { kind: string }) => kind === 'answer_unfit');
    expect(item.message).toContain('replying/hook, which got the fixed one: its status is none from 200 to 299');
  });

  it('gives the fixed answer in place of a page, and attention says so', async () => {
    const page = { headers: { 'content-type': 'text/html' }, body: '<script>alert(1)</script>' };
    const gateway = await open(
      { reply: reply(page) },
      { webhookResponse: { contentType: 'text/plain', body: 'Working on it' } },
    );
    expect(await gateway.deliver('hook', push({}))).toMatchObject({ status: 200, text: 'Working on it' });
    const attention = JSON.parse(await gateway.get('/flows/api/attention'));
    const item = attention.find(({ kind }: { kind: string }) => kind === 'answer_unfit');
    expect(item.message).toContain('a type that browsers may run, or none; accepted are JSON, text/plain and text/csv');
  });

  it('never waits for a duplicate, a filtered or a held delivery', async () => {
    const gateway = await open(
      { wait: never, reply: { ...reply(HELLO), runAfter: { wait: ['Succeeded'] } } },
      { webhookWhen: 'body.n > 0', webhookEventId: 'string(body.n)', webhookHoldDeliveries: true, withinSeconds: 20 },
    );
    expect(JSON.parse((await gateway.deliver('hook', push({ n: 0 }))).text)).toMatchObject({ filtered: true });
    // Not with the gateway's client, which hangs up when the gateway closes.
    const first = fetch(`${gateway.url}/flows/api/webhook/hook`, {
      method: 'POST',
      ...push({ n: 1 }, 'one'),
    } as RequestInit);
    await eventually(
      () => gateway.countRuns(),
      (runs) => runs > 0,
    );
    expect(JSON.parse((await gateway.deliver('hook', push({ n: 1 }, 'two'))).text)).toMatchObject({ duplicate: true });
    await fetch(`${gateway.url}/flows/api/flows/${FLOW}/disable`, { method: 'POST' });
    expect(JSON.parse((await gateway.deliver('hook', push({ n: 2 }, 'three'))).text)).toMatchObject({ held: true });
    // A stop answers waiting senders.
    await gateway.close();
    expect(await (await first).json()).toEqual({ runId: expect.any(String), deliveryId: expect.any(String) });
  });

  it('answers a forgery under Audit as it does the publisher, and refuses it under Enforce', async () => {
    const lenient = await open({ reply: reply(HELLO) }, { webhookEnforcementMode: 'Audit' });
    const [right, wrong] = [
      await lenient.deliver('hook', push({ name: 'Ada' }, 'one')),
      await lenient.deliver('hook', push({ name: 'Ada' }, 'two', 'another key of bytes')),
    ];
    expect([wrong.status, wrong.text]).toEqual([right.status, right.text]);
    expect(lenient.warnings.join()).toContain('answers everybody who knows the URL');
    const strict = await open({ reply: reply(HELLO) });
    expect(await strict.deliver('hook', push({}, 'one', 'another key of bytes'))).toMatchObject({ status: 401 });
    expect(strict.warnings.join()).not.toContain('answers everybody');
  });
});

describe('who waits for a step', () => {
  const asked = (n: number, bodyBytes = 0, flowId = FLOW) => ({
    ...{ flowId, triggerKey: 'hook', stepKey: 'reply' },
    ...{ deliveryId: `delivery ${n}`, runId: `run ${n}`, until: 60_000, bodyBytes },
  });
  /** Steps that end when the test says so. */
  function answering() {
    const outputs = new Map<string, unknown>();
    let tell = (_: LiveEvent) => {};
    const store = {
      findStep: async (runId: string) =>
        outputs.has(runId) ? { status: 'Succeeded', output: outputs.get(runId) } : { status: 'Running' },
      findRun: async () => ({ status: 'Running' }),
    } as unknown as Parameters<typeof createFlowAnswers>[0]['store'];
    const live = {
      subscribe(listener: typeof tell) {
        tell = listener;
        return () => {};
      },
    };
    const clock = { now: () => NOW, monotonic: () => 0 };
    const senders = new Map<string, EventEmitter & { destroyed: boolean }>();
    const unfit = createUnfitAnswers(clock);
    const answers = createFlowAnswers({ store, live, clock, logger: pino({ level: 'silent' }), unfit, senders });
    onTestFinished(() => answers.end());
    return { answers, unfit, senders, outputs, tell: (event: LiveEvent) => tell(event) };
  }

  it('is told by this process, and by the feed of another', async () => {
    const { answers, outputs, tell } = answering();
    const [own, others] = [answers.wait(asked(1)), answers.wait(asked(2))];
    outputs.set('run 1', { body: 'one' }).set('run 2', { body: 'two' });
    tell({ type: 'step.completed', runId: 'run 1', flowId: null, data: { stepKey: 'reply' } });
    tell({ type: 'run.changed', runId: 'run 2', flowId: null, data: {} });
    expect([(await own)?.body, (await others)?.body]).toEqual(['one', 'two']);
  });

  it('is found out where no notice comes', async () => {
    const { answers, outputs } = answering();
    const waiting = answers.wait(asked(1));
    outputs.set('run 1', { body: 'late' });
    expect((await waiting)?.body).toBe('late');
  });

  it('leaves each flow its share of the room, and tells of those that got none', async () => {
    const { answers, unfit } = answering();
    const greedy = Array.from({ length: 200 }, (_, n) => answers.wait(asked(n)));
    let ended = 0;
    for (const each of greedy) void each.then(() => (ended += 1));
    const others = Array.from({ length: 120 }, (_, n) => answers.wait(asked(1000 + n, 0, 'other')));
    await eventually(
      async () => ended,
      (count) => count === 100,
    );
    expect(await Promise.all(others.slice(100))).toEqual(Array(20).fill(undefined));
    expect(unfit.since(0)).toMatchObject([
      { flowId: FLOW, count: 100, why: 'too many senders wait for an answer at once' },
      { flowId: 'other', count: 20 },
    ]);
    const large = answers.wait(asked(5000, 16 * 1024 * 1024, 'third'));
    expect(await answers.wait(asked(5001, 16 * 1024 * 1024, 'fourth'))).toBeUndefined();
    answers.end();
    expect(await large).toBeUndefined();
  });

  it('is no longer waited for by who hung up', async () => {
    const { answers, unfit, senders } = answering();
    const sender = Object.assign(new EventEmitter(), { destroyed: false });
    senders.set('delivery 1', sender);
    const waiting = answers.wait(asked(1));
    sender.emit('close');
    expect(await waiting).toBeUndefined();
    const gone = Object.assign(new EventEmitter(), { destroyed: true });
    senders.set('delivery 2', gone);
    expect(await answers.wait(asked(2))).toBeUndefined();
    expect(unfit.since(0)).toEqual([]);
    expect([...sender.eventNames(), ...gone.eventNames()]).toEqual([]);
  });

  it('is bounded in number and in bytes, and answered by a stop', async () => {
    const { answers } = answering();
    const large = answers.wait(asked(0, 16 * 1024 * 1024));
    expect(await answers.wait(asked(1, 1))).toBeUndefined();
    const waiting = Array.from({ length: 199 }, (_, n) => answers.wait(asked(n + 2)));
    expect(await answers.wait(asked(999))).toBeUndefined();
    answers.end();
    expect(await Promise.all([large, ...waiting])).toEqual(Array(200).fill(undefined));
    expect(await answers.wait(asked(1000))).toBeUndefined();
  });
});

describe('a manifest', () => {
  it.each<[string, string, object]>([
    ['does not exist', 'is not a step of this flow; did you mean "replay"?', { replay: reply(HELLO) }],
    ['is a step of a loop', 'is a step of a loop', { each: { forEach: [1], steps: { reply: reply(HELLO) } } }],
    ['always fails', 'can never succeed', { reply: { type: 'Fail', inputs: { message: 'no' } } }],
    [
      'is kept from running',
      'the condition of an edge to "reply" is false',
      {
        first: { type: 'NoOp' },
        reply: { ...reply(HELLO), runAfter: { first: { statuses: ['Succeeded'], when: 'false' } } },
      },
    ],
    [
      'comes behind one that always fails',
      '"first" is a step that always fails',
      {
        first: { type: 'Fail', inputs: { message: 'no' } },
        reply: { ...reply(HELLO), runAfter: { first: ['Succeeded'] } },
      },
    ],
  ])('whose step %s is refused', async (_, message, steps) => {
    await expect(open(steps)).rejects.toThrow(message);
  });

  it('whose step comes behind sixty layers of two steps is accepted', async () => {
    const layer = (n: number) =>
      ['a', 'b'].map((side): [string, object] => {
        const above = Object.fromEntries(n === 0 ? [] : ['a', 'b'].map((key) => [`${key}${n - 1}`, ['Succeeded']]));
        return [`${side}${n}`, { type: 'NoOp', runAfter: above }];
      });
    const layers = Object.fromEntries(Array.from({ length: 60 }, (_, n) => layer(n)).flat());
    await open({ ...layers, reply: { ...reply(HELLO), runAfter: { a59: ['Succeeded'], b59: ['Succeeded'] } } });
  });

  it.each([0, 0.05, 26])('that waits for %s seconds is refused', async (withinSeconds) => {
    await expect(open({ reply: reply(HELLO) }, { withinSeconds })).rejects.toThrow('withinSeconds');
  });
});

describe('the output of a step', () => {
  it.each<[unknown, string]>([
    [null, 'no object'],
    ['text', 'no object'],
    [{ status: 404 }, 'none from 200 to 299'],
    [{ status: 200.5 }, 'none from 200 to 299'],
    [{ headers: [] }, 'its headers'],
    [{ headers: { 'content-type': 'a\r\nset-cookie: b' } }, 'no text of one line'],
    [{ headers: { 'content-type': 7 } }, 'no text of one line'],
    [{ headers: { 'content-language': 'x'.repeat(1025) } }, 'of at most 1024 characters'],
    [{ status: 205, body: 'lost' }, 'has no body'],
    [{ status: 302, headers: { location: 'https://elsewhere.example' } }, 'none from 200 to 299'],
    [{ headers: { 'content-type': 'text/html' }, body: '<script>' }, 'a type that browsers may run'],
    [{ headers: { 'content-type': '' } }, 'a type that browsers may run, or none'],
    [{ headers: { 'content-type': ['text/plain', 'text/html'] } }, 'no text of one line'],
    [{ headers: { 'content-type': 'text/plain', 'Content-Type': 'text/html' } }, 'a type that browsers may run'],
  ])('%j is no answer', (output, why) => {
    expect(answerOf(output)).toContain(why);
  });

  it('is sent as plain text if it is XML, and in UTF-8 whatever charset it names', () => {
    const typeOf = (type: string) => answerOf({ headers: { 'content-type': type }, body: '<a/>' });
    expect(typeOf('text/xml')).toMatchObject({ contentType: 'text/plain; charset=utf-8', body: '<a/>' });
    expect(typeOf('text/csv; charset=utf-7')).toMatchObject({ contentType: 'text/csv; charset=utf-8' });
  });

  it.each([
    'access-control-allow-origin',
    'clear-site-data',
    'content-disposition',
    'content-encoding',
    'content-location',
    'content-security-policy',
    'link',
    'location',
    'refresh',
    'report-to',
    'service-worker-allowed',
    'set-cookie',
    'sourcemap',
    'x-content-type-options',
  ])('sets no header that acts in a browser: %s', (name) => {
    expect(answerOf({ headers: { [name]: 'x', 'Cache-Control': 'no-store' } })).toMatchObject({
      headers: { 'cache-control': 'no-store' },
    });
  });

  it('is an answer without any of its parts', () => {
    const plain = { statusCode: 200, contentType: 'text/plain; charset=utf-8', body: '', headers: {} };
    expect(answerOf({})).toEqual(plain);
    expect(answerOf({ body: null })).toEqual(plain);
    expect(answerOf({ body: 0 })).toMatchObject({ body: '0', contentType: 'application/json; charset=utf-8' });
  });
});
