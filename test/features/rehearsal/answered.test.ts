import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { answersFrom } from '../../../src/features/rehearsal/answered.ts';
import { defineHandler } from '../../../src/flows/handlers/handler.ts';
import { parseJson } from '../../../src/model/json.ts';
import { delivered, FLOW_ID, loaded, SECRET, START, simulatorOf } from './flows.ts';

const CALL = {
  type: 'HttpRequest',
  inputs: {
    method: 'POST',
    url: `https://api.example.com/orders?token=env:TOKEN`,
    headers: { authorization: 'env:API_KEY', 'x-tenant': 'env:TENANT' },
    query: { page: '1', key: 'file:key' },
    body: { total: `\${trigger.body.total}` },
    signing: { scheme: 'Hmac', key: 'env:SIGNING' },
  },
};
const answer200 = { output: { status: 200, headers: { 'content-type': 'application/json' }, body: { id: 'A1' } } };

const SECRET_OF_DELIVERY = 'of-the-delivery';

async function simulated(flow: ReturnType<typeof loaded>, ...rest: [Parameters<typeof simulatorOf>[1]?]) {
  const simulator = await simulatorOf(flow, ...rest);
  onTestFinished(simulator.close);
  return simulator;
}

describe('a simulated run', () => {
  it('ends where many ways lead to steps that are skipped, and has them behind those that they wait for', async () => {
    const layer = (n: number) => ['a', 'b'].map((side) => `${side}${n}`);
    const after = (n: number) => Object.fromEntries(layer(n - 1).map((key) => [key, ['Succeeded']]));
    const steps = Object.fromEntries(
      Array.from({ length: 40 }, (_, n) =>
        layer(n).map((key) => [
          key,
          n === 0 ? { type: 'Fail', inputs: { message: 'no' } } : { type: 'NoOp', runAfter: after(n) },
        ]),
      ).flat(),
    );
    const simulator = await simulated(loaded(steps));
    const seen = await simulator.run({ ...delivered({}), answer: () => answer200 });
    expect(seen.run.status).toBe('Failed');
    expect(seen.steps.map(({ path }) => Number(path.slice(1)))).toEqual(Array.from({ length: 80 }, (_, n) => n >> 1));
  });

  it('builds a request up to the wire, names its secrets, and goes on with the answer that is given', async () => {
    const steps = {
      order: CALL,
      tell: {
        type: 'Transform',
        inputs: { value: `\${steps.order.output.body.id}` },
        runAfter: { order: ['Succeeded'] },
      },
    };
    const simulator = await simulated(loaded(steps));
    const { run, calls, unanswered } = await simulator.run({ ...delivered({ total: 7 }), answer: () => answer200 });
    expect(run).toMatchObject({ status: 'Succeeded', steps: { tell: { output: 'A1' } } });
    expect(unanswered).toEqual([]);
    expect(calls).toMatchObject([{ path: 'order', attempt: 1, type: 'HttpRequest' }]);
    expect(calls[0]?.request).toEqual({
      method: 'POST',
      url: 'https://api.example.com/orders?token=[credential]&page=1&key=[secret file:key]',
      headers: {
        'user-agent': 'sluice',
        'idempotency-key': '[run]:order',
        'content-type': 'application/json',
        authorization: '[secret env:API_KEY]',
        'x-tenant': '[secret env:TENANT]',
        'x-signature': 'sha256=[sha256 in hex, signed with [secret env:SIGNING]]',
      },
      body: { total: 7 },
    });
    expect(JSON.stringify({ run, calls })).not.toContain(SECRET);
  });

  it.each([
    [
      'of a URL that is a secret',
      { url: 'env:PEER', query: { page: 2 } },
      { url: '[secret env:PEER]?page=2', method: 'GET', body: null },
    ],
    [
      'of a credential that an earlier answer gave',
      {
        url: 'https://a.example/x',
        headers: { authorization: `Bearer \${trigger.body.token}` },
        query: { token: `\${trigger.body.token}` },
      },
      { url: 'https://a.example/x?token=[credential]', headers: { authorization: '[credential]' } },
    ],
    [
      'signed by a key that is written out',
      { url: 'https://a.example/x', method: 'POST', body: 1, signing: { scheme: 'StandardWebhooks', key: SECRET } },
      {
        headers: {
          'webhook-id': '[run]:call',
          'webhook-timestamp': '[time]',
          'webhook-signature': 'v1,[signed with [secret]]',
        },
      },
    ],
    [
      'that forwards what came, as it came',
      { url: 'https://a.example/x', method: 'PUT', forwardBody: true, forwardHeaders: ['x-kind'] },
      { body: { token: SECRET_OF_DELIVERY, exact: parseJson('1.10') }, headers: { 'x-kind': 'order' } },
    ],
    [
      'with text of another type',
      {
        url: 'https://a.example/x',
        method: 'POST',
        body: 'a=1',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      },
      { body: 'a=1' },
    ],
  ])('shows a request %s', async (_, inputs, request) => {
    const simulator = await simulated(loaded({ call: { type: 'HttpRequest', inputs } }));
    const body = Buffer.from(`{"token":"${SECRET_OF_DELIVERY}","exact":1.10}`);
    const headers = { 'x-kind': 'order' };
    const trigger = { key: 'hook', body, contentType: 'application/json', headers };
    const { calls, run } = await simulator.run({ trigger, triggerType: 'webhook', at: START, answer: () => undefined });
    expect(run.steps.call?.error).toBeNull();
    expect(calls[0]?.request).toMatchObject(request);
    expect(JSON.stringify(calls)).not.toContain(SECRET);
  });

  it('never makes up an answer: what follows from an unknown one is not there, whatever time limits there are', async () => {
    const steps = {
      order: { ...CALL, timeoutSeconds: 60, retry: { maxAttempts: 3, backoffSeconds: 1 } },
      late: { type: 'Transform', inputs: { value: 1 }, runAfter: { order: ['Failed'] } },
      other: { type: 'Delay', inputs: { seconds: 5 } },
      next: { type: 'Transform', inputs: { value: 2 }, runAfter: { other: ['Succeeded'] } },
    };
    const simulator = await simulated(loaded(steps, { timeoutSeconds: 3600 }));
    const first = await simulator.run({ ...delivered({ total: 7 }), answer: () => undefined });
    expect(first.unanswered).toEqual(['order']);
    expect(first.run.status).toBe('Running');
    expect(first.steps.map(({ path, step: { status } }) => [path, status])).toEqual([
      ['order', 'Pending'],
      ['other', 'Succeeded'],
      ['next', 'Succeeded'],
    ]);
    // Steps left over from the first run do not become due in the next.
    const second = await simulator.run({ ...delivered({ total: 8 }), answer: () => answer200 });
    expect(second.run).toMatchObject({ status: 'Succeeded', startedAt: START });
    expect(second.calls).toHaveLength(1);
  });

  it('judges an answer by the step that gets it, tries again as that says, and waits no time', async () => {
    const steps = { order: { ...CALL, retry: { maxAttempts: 2, backoffSeconds: 300, jitter: false } } };
    const busy = { output: { status: 503, headers: {}, body: null } };
    const answer = answersFrom({ order: [busy, answer200] });
    const simulator = await simulated(loaded(steps));
    const { run, calls, waits } = await simulator.run({ ...delivered({ total: 7 }), answer });
    expect(run).toMatchObject({ status: 'Succeeded', completedAt: START + 300_000 });
    expect(calls.map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(waits).toEqual([{ path: 'order', kind: 'retry', signal: null, ms: 300_000 }]);
    const expecting = { order: { ...CALL, inputs: { ...CALL.inputs, expectedStatuses: '503' } } };
    const other = await simulated(loaded(expecting));
    expect((await other.run({ ...delivered({ total: 7 }), answer })).run.status).toBe('Succeeded');
  });

  it('calls no code of the operator, and shows its inputs', async () => {
    let isCalled = false;
    const send = defineHandler({
      type: 'SendMail',
      inputs: z.strictObject({ to: z.email(), key: z.string().length(21), url: z.url() }),
      secretInputs: ['key', 'url'],
      run: () => {
        isCalled = true;
        return { kind: 'succeeded', output: null };
      },
    });
    const steps = {
      mail: { type: 'SendMail', inputs: { to: `\${trigger.body.to}`, key: 'env:MAIL', url: 'env:URL' } },
    };
    const simulator = await simulated(loaded(steps, { own: [send] }));
    const answer = answersFrom({ mail: [{ error: { code: 'bounced', message: 'No such box.', retryable: false } }] });
    const { run, calls } = await simulator.run({ ...delivered({ to: 'a@example.com' }), answer });
    expect(run.steps.mail).toMatchObject({ status: 'Failed', error: { code: 'bounced' } });
    expect(calls).toEqual([
      {
        path: 'mail',
        attempt: 1,
        type: 'SendMail',
        input: { to: 'a@example.com', key: '[secret env:MAIL]', url: '[secret env:URL]' },
        request: null,
      },
    ]);
    expect(isCalled).toBe(false);
  });

  it('runs sub-runs and loops, and names them by their places', async () => {
    const inner = FLOW_ID.replace(/10$/, '11');
    const sub = loaded({ call: CALL }, { id: inner });
    const steps = {
      each: {
        type: 'ForEach',
        forEach: [1, 2],
        steps: { go: { type: 'RunFlow', inputs: { flow: inner, body: { total: `\${loop.item}` } } } },
      },
    };
    const simulator = await simulated(loaded(steps), [sub.flow]);
    const { run, calls, steps: reached } = await simulator.run({ ...delivered({}), answer: () => answer200 });
    expect(run.status).toBe('Succeeded');
    expect(calls.map(({ path, request }) => [path, request?.body, request?.headers['idempotency-key']])).toEqual([
      ['each.0.go/call', { total: 1 }, '[run each.0.go]:call'],
      ['each.1.go/call', { total: 2 }, '[run each.1.go]:call'],
    ]);
    expect(reached.map(({ path }) => path)).toEqual([
      'each',
      'each.0.go',
      'each.0.go/call',
      'each.1.go',
      'each.1.go/call',
    ]);
  });

  it('ends a poll with its recorded answer, and does not know what a further request would be answered', async () => {
    const poll = (pollConditionEquals: string, rest = {}) => ({
      type: 'HttpRequest',
      inputs: {
        url: 'https://api.example.com/jobs/1',
        pollEnabled: true,
        pollConditionPath: 'state',
        pollConditionEquals,
        ...rest,
      },
    });
    const output = { status: 200, headers: {}, body: { state: 'done' } };
    for (const [step, end] of [
      [poll('done'), 'Succeeded'],
      [poll('done', { pollMinAttempts: 3 }), 'Succeeded'],
      [poll('other'), 'Running'],
    ] as const) {
      const simulator = await simulated(loaded({ step }));
      const { run, unanswered } = await simulator.run({ ...delivered({}), answer: () => ({ output }) });
      expect([run.status, unanswered]).toEqual([end, end === 'Running' ? ['step'] : []]);
    }
  });

  it('ends at its limits, however a flow goes round', async () => {
    const steps = {
      each: {
        type: 'ForEach',
        forEach: `\${trigger.body}`,
        steps: { one: { type: 'Transform', inputs: { value: 1 } } },
      },
    };
    const simulator = await simulated(loaded(steps));
    const start = { ...delivered(Array.from({ length: 50 }, () => 0)), answer: () => undefined };
    const few = await simulator.run({ ...start, limits: { steps: 10, milliseconds: 60_000, bytes: 100_000 } });
    expect(few).toMatchObject({ stoppedBy: 'steps', run: { status: 'Running' } });
    const none = await simulator.run({ ...start, limits: { steps: 1000, milliseconds: -1, bytes: 100_000 } });
    expect(none).toMatchObject({ stoppedBy: 'milliseconds' });
    const small = await simulator.run({ ...start, limits: { steps: 1000, milliseconds: 60_000, bytes: 1000 } });
    expect(small).toMatchObject({ stoppedBy: 'bytes', run: { status: 'Running' } });
    expect(small.steps.length).toBeLessThan(50);
    expect((await simulator.run(start)).run.status).toBe('Succeeded');
  });

  it('begins no loop and no sub-run that brings more steps than it may try', async () => {
    const one = { type: 'Transform', inputs: { value: 1 } };
    const skipped = { type: 'NoOp', runAfter: { one: { when: 'false' } } };
    const wide = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`s${index}`, skipped]));
    const loop = { type: 'ForEach', forEach: `\${trigger.body}`, steps: { one, ...wide } };
    const limits = { steps: 100, milliseconds: 60_000, bytes: 1_000_000 };
    const start = { ...delivered([1, 2, 3, 4, 5]), answer: () => undefined, limits };
    const looping = await (await simulated(loaded({ loop }))).run(start);
    expect(looping).toMatchObject({ stoppedBy: 'steps', steps: [{ path: 'loop' }] });
    const sub = loaded({ one, ...wide }, { id: FLOW_ID.replace(/10$/, '11') });
    const go = { type: 'RunFlow', inputs: { flow: sub.flow.manifest.id } };
    const each = { type: 'ForEach', forEach: `\${trigger.body}`, steps: { go } };
    const { stoppedBy, steps } = await (await simulated(loaded({ each }), [sub.flow])).run(start);
    expect(stoppedBy).toBe('steps');
    expect(steps.length).toBeLessThan(100);
  });

  it('gives an answer that has a request to that request alone, and none by the name of a prototype', () => {
    const request = { method: 'GET', url: 'https://a.example/', headers: {}, body: null };
    const answer = answersFrom({ go: [{ request, output: 1 }] });
    const call = { path: 'go', attempt: 1, type: 'HttpRequest', input: null, request };
    expect(answer(call)?.output).toBe(1);
    expect(answer({ ...call, request: { ...request, method: 'PUT' } })).toBeUndefined();
    expect(answer({ ...call, path: 'constructor' })).toBeUndefined();
  });

  it('sends a signal to the step that it is for, in whatever run and iteration, once that waits', async () => {
    const inner = FLOW_ID.replace(/10$/, '11');
    const ask = { type: 'WaitForSignal', inputs: { signalName: 'go', timeoutSeconds: 60 } };
    const sub = loaded(
      { nap: { type: 'Delay', inputs: { seconds: 5 } }, ask: { ...ask, runAfter: { nap: [] } } },
      { id: inner },
    );
    const steps = {
      nap: { type: 'Delay', inputs: { seconds: 3600 } },
      each: { type: 'ForEach', forEach: [1, 2], steps: { ask }, runAfter: { nap: ['Succeeded'] } },
      run: { type: 'RunFlow', inputs: { flow: inner } },
      never: ask,
    };
    const simulator = await simulated(loaded(steps), [sub.flow]);
    const signals = (['each.1.ask', 'each.0.ask', 'run/ask', 'gone'] as const).map(
      (path) => ['go', path, path] as const,
    );
    const { run, steps: reached } = await simulator.run({ ...delivered({}), answer: () => undefined, signals });
    expect(run).toMatchObject({ status: 'Failed', steps: { each: { output: ['each.0.ask', 'each.1.ask'] } } });
    const ended = Object.fromEntries(reached.map(({ path, step: { output, error } }) => [path, error?.code ?? output]));
    expect(ended).toMatchObject({ 'run/ask': 'run/ask', never: 'signal_timeout' });
  });
});
