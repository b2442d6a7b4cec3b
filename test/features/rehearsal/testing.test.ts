import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runFlow, testFiles } from '../../../src/features/rehearsal/testing.ts';
import { temporaryFolder } from '../../temporary.ts';

const sample = async (name: string): Promise<unknown> =>
  JSON.parse(await readFile(join(import.meta.dirname, '../../../manifests', name), 'utf8'));
const startAt = new Date('2026-03-01T12:00:00Z');

describe('runFlow', () => {
  it.each([
    [{ approved: true }, 'Succeeded', 'Skipped'],
    [{ approved: false }, 'Skipped', 'Succeeded'],
  ])('hands a signal %j to the step that waits for it', async (decision, grant, refuse) => {
    const run = await runFlow(await sample('approval.json'), { body: { what: 'a raise' }, signals: { decision } });
    expect(run).toMatchObject({
      status: 'Succeeded',
      steps: { decision: { output: decision }, grant: { status: grant }, refuse: { status: refuse } },
    });
  });

  it('hands headers on in lower case, however the test writes them', async () => {
    const manifest = {
      id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
      version: '1',
      triggers: { byHand: { type: 'manual' } },
      steps: { kind: { type: 'Transform', inputs: { value: `\${trigger.headers['x-github-event']}` } } },
    };
    const run = await runFlow(manifest, { headers: { 'X-GitHub-Event': 'push' } });
    expect(run.steps.kind).toMatchObject({ status: 'Succeeded', output: 'push' });
  });

  it('tells of the run and, by a cron trigger, of the tick', async () => {
    const manifest = {
      id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
      version: '1',
      triggers: { tick: { type: 'cron', inputs: { cronExpression: '0 12 * * *' } }, byHand: { type: 'manual' } },
      steps: { told: { type: 'Transform', inputs: { value: [`\${run}`, `\${trigger.scheduledFor}`] } } },
    };
    const startedAt = startAt.toISOString();
    for (const [trigger, scheduledFor] of [
      ['tick', startedAt],
      ['byHand', null],
    ] as const) {
      const run = await runFlow(manifest, { startAt, trigger });
      const told = { id: run.id, startedAt, flow: manifest.id, revision: 1 };
      expect(run.steps.told?.output).toEqual([told, scheduledFor]);
    }
  });

  it('lets time jump over what waits', async () => {
    const run = await runFlow(await sample('approval.json'), { body: { what: 'a raise' }, startAt });
    expect(run).toMatchObject({
      status: 'Succeeded',
      completedAt: Date.parse('2026-03-04T12:00:00Z'),
      steps: { decision: { error: { code: 'signal_timeout' } }, lapse: { status: 'Succeeded' } },
    });
  });

  it('runs loops and conditions', async () => {
    const lines = [
      { sku: 'A', quantity: 2, unitPrice: 10 },
      { sku: 'B', quantity: 1, unitPrice: 5 },
    ];
    const run = await runFlow(await sample('order.json'), { body: { lines } });
    expect(run).toMatchObject({
      status: 'Succeeded',
      steps: {
        'lines.0.price': { output: 20 },
        lines: { output: ['line 0: pack 2 of A, 20', 'line 1: pack 1 of B, 5'] },
        gift: { status: 'Skipped' },
        ship: { output: '2 lines are shipped' },
      },
    });
  });

  describe('of a flow that runs another', () => {
    const INNER = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a11';
    const flow = (id: string, steps: object, rest = {}) => ({ id, version: '1', steps, ...rest });
    const outer = (step: object) => flow(INNER.replace('11', '10'), { go: { type: 'RunFlow', ...step } });
    const go = { inputs: { flow: INNER, body: { n: `\${trigger.body.n}`, exact: '12345678901234567890' } } };

    it('runs it with the body, and takes what its last step left as output', async () => {
      const steps = {
        cool: { type: 'Delay', inputs: { seconds: 3600 } },
        add: { type: 'Transform', inputs: { value: `\${trigger.body.n + 1}` }, runAfter: { cool: ['Succeeded'] } },
      };
      const run = await runFlow(outer(go), { flows: [flow(INNER, steps)], body: { n: 7 }, startAt });
      const [subRun] = run.subRuns;
      expect(run).toMatchObject({
        status: 'Succeeded',
        completedAt: startAt.getTime() + 3_600_000,
        steps: { go: { output: { runId: subRun?.id, status: 'Succeeded', output: 8 }, attemptCount: 1 } },
        subRuns: [{ triggerType: 'flow', sourceRunId: run.id, steps: { add: { output: 8 } } }],
      });
    });

    it('leaves the output of each of several last steps by its key, and none of a flow without steps', async () => {
      const value = (given: unknown) => ({ type: 'Transform', inputs: { value: given } });
      const two = await runFlow(outer(go), { flows: [flow(INNER, { a: value(1), b: value([2]) })], body: { n: 7 } });
      expect(two.steps.go).toMatchObject({ output: { output: { a: 1, b: [2] } } });
      const none = await runFlow(outer(go), { flows: [flow(INNER, {})], body: { n: 7 } });
      expect(none.steps.go).toMatchObject({ output: { status: 'Succeeded', output: null } });
    });

    it('fails with the run and the step that failed there, and tries again with a new run', async () => {
      const steps = { charge: { type: 'Fail', inputs: { message: 'No money.' } } };
      const retry = { maxAttempts: 2, backoffSeconds: 1 };
      const run = await runFlow(outer({ ...go, retry }), { flows: [flow(INNER, steps)], body: { n: 7 } });
      const [first, second] = run.subRuns;
      expect(run.subRuns).toHaveLength(2);
      const message = (id: string | undefined) => `the run ${id} of the flow manifest failed at "charge": No money.`;
      expect(run.steps.go).toMatchObject({
        status: 'Failed',
        error: { code: 'sub_run_failed', message: message(second?.id) },
        output: { runId: second?.id, status: 'Failed' },
        attempts: [{ error: { message: message(first?.id) } }, {}],
      });
    });

    it('ends the run with the time limit of the step, and does not wait where it is told not to', async () => {
      const steps = { wait: { type: 'WaitForSignal', inputs: { signalName: 'never' } } };
      const late = await runFlow(outer({ ...go, timeoutSeconds: 60 }), {
        flows: [flow(INNER, steps)],
        body: { n: 7 },
        startAt,
      });
      expect(late).toMatchObject({
        status: 'Failed',
        completedAt: startAt.getTime() + 60_000,
        steps: { go: { error: { code: 'sub_run_timed_out', retryable: true } } },
        subRuns: [{ status: 'TimedOut' }],
      });
      const own = await runFlow(outer({ inputs: { ...go.inputs, wait: false } }), {
        flows: [flow(INNER, steps)],
        body: { n: 7 },
      });
      expect(own).toMatchObject({ status: 'Succeeded', subRuns: [{ status: 'Running' }] });
      expect(own.steps.go?.output).toEqual({ runId: own.subRuns[0]?.id });
    });

    it('runs one for each item of a loop', async () => {
      const manifest = flow(INNER.replace('11', '10'), {
        each: {
          type: 'ForEach',
          forEach: [1, 2, 3],
          concurrencyLimit: 2,
          steps: { go: { type: 'RunFlow', inputs: { flow: INNER, body: `\${loop.item}` } } },
        },
      });
      const steps = { add: { type: 'Transform', inputs: { value: `\${trigger.body + 1}` } } };
      const run = await runFlow(manifest, { flows: [flow(INNER, steps)] });
      expect(run.steps.each?.output).toMatchObject([{ output: 2 }, { output: 3 }, { output: 4 }]);
    });

    it('fails plainly where it is not given, and takes a stub in its place', async () => {
      const missing = await runFlow(outer(go), { body: { n: 7 } });
      expect(missing.steps.go).toMatchObject({ error: { code: 'flow_not_pinned', retryable: false } });
      const stub = ({ inputs }: { inputs: unknown }) => ({ asked: inputs }) as never;
      const stubbed = await runFlow(outer(go), { body: { n: 7 }, handlers: { RunFlow: stub } });
      expect(stubbed).toMatchObject({
        status: 'Succeeded',
        subRuns: [],
        steps: { go: { output: { asked: { flow: INNER } } } },
      });
    });

    it('refuses a body that is larger than an output, and an output that is', async () => {
      const large = 'x'.repeat(1024 * 1024);
      const body = await runFlow(outer({ inputs: { flow: INNER, body: `\${trigger.body}` } }), {
        flows: [flow(INNER, {})],
        body: large,
      });
      expect(body.steps.go).toMatchObject({ error: { code: 'input_too_large' } });
      const value = (given: string) => ({ type: 'Transform', inputs: { value: given } });
      const half = `\${trigger.body}`;
      const output = await runFlow(outer({ inputs: { flow: INNER, body: half } }), {
        flows: [flow(INNER, { a: value(half), b: value(half) })],
        body: 'x'.repeat(600 * 1024),
      });
      expect(output.steps.go).toMatchObject({ error: { code: 'output_too_large', retryable: false } });
      expect(output.subRuns).toMatchObject([{ status: 'Succeeded' }]);
    });
  });

  it('takes stubs in the place of handlers, and they may wait, fail or throw', async () => {
    let polls = 0;
    const run = await runFlow(await sample('export-poll.json'), {
      body: { url: 'https://exports.example/7' },
      handlers: {
        HttpRequest: ({ inputs, now }) => {
          expect(inputs).toMatchObject({ url: 'https://exports.example/7' });
          polls += 1;
          if (polls < 3) return { kind: 'waiting', until: now() + 60_000 };
          return { status: 200, body: { url: 'there' } };
        },
      },
      startAt,
    });
    expect(run).toMatchObject({
      status: 'Succeeded',
      completedAt: startAt.getTime() + 125_000,
      steps: { tell: { output: 'the export at https://exports.example/7 is ready' } },
    });
    const failed = await runFlow(await sample('export-poll.json'), {
      body: { url: 'https://exports.example/7' },
      handlers: { HttpRequest: () => Promise.reject(new Error('no line')) },
    });
    expect(failed).toMatchObject({ status: 'Failed', steps: { ready: { error: { message: 'no line' } } } });
  });

  it('returns a run that waits for a signal that is never sent as Running', async () => {
    const steps = { wait: { type: 'WaitForSignal', inputs: { signalName: 'never' } } };
    const run = await runFlow({ id: '0b7c9d10-0000-4000-8000-000000000001', version: '1', steps });
    expect(run).toMatchObject({ status: 'Running', steps: { wait: { status: 'Pending' } } });
  });

  it('needs no key of a trigger, for it judges no delivery; a secret of a step has to be given', async () => {
    const inputs = {
      webhookSlug: 'in',
      webhookSignatureScheme: 'GitHub',
      webhookHmacKey: 'env:GITHUB_WEBHOOK_SECRET',
      webhookPublicUrl: 'env:PUBLIC_URL',
      webhookBodySchema: 'file:schema.json',
    };
    const signed = {
      id: '0b7c9d10-0000-4000-8000-000000000001',
      version: '1',
      triggers: { hook: { type: 'webhook', inputs } },
      steps: { log: { type: 'LogMessage', inputs: { message: `\${trigger.body.n}` } } },
    };
    expect(await runFlow(signed, { body: { n: 7 } })).toMatchObject({ status: 'Succeeded', triggerType: 'webhook' });
    const call = {
      type: 'HttpRequest',
      inputs: { url: 'https://example.com', headers: { authorization: 'env:TOKEN' } },
    };
    await expect(runFlow({ ...signed, steps: { call } })).rejects.toThrow(
      'authorization: is not among the secrets given',
    );
  });

  it('throws with every mistake of the manifest', async () => {
    const steps = { a: { type: 'Nope' } };
    await expect(runFlow({ id: '0b7c9d10-0000-4000-8000-000000000001', version: '1', steps })).rejects.toThrow(
      /steps\.a\.type: is not a known step type/,
    );
  });
});

describe('testFiles', () => {
  const ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
  const manifest = {
    id: ID,
    version: '1',
    triggers: { hook: { type: 'webhook', inputs: { webhookHmacKey: 'env:NO_SUCH_KEY' } } },
    steps: {
      charge: {
        type: 'HttpRequest',
        inputs: { url: 'env:NO_SUCH_URL', headers: { 'x-total': `\${trigger.body.total}` } },
      },
    },
  };
  const trigger = { key: 'hook', type: 'webhook', contentType: 'application/json', headers: {}, body: { total: '7' } };
  const answers = { charge: [{ output: { status: 200, headers: {}, body: null } }] };
  const request = { method: 'GET', url: '[secret env:NO_SUCH_URL]', headers: { 'x-total': '7' }, body: null };
  const expected = { end: 'Succeeded', requests: { charge: [request] } };
  const saved = {
    sluiceTest: 1,
    name: 'a test',
    flow: ID,
    startedAt: '2026-03-01T12:00:00Z',
    trigger,
    answers,
    expected,
  };

  async function casesOf(files: Record<string, unknown>) {
    const folder = temporaryFolder('tests');
    const manifests = join(folder, 'manifests');
    await mkdir(join(folder, 'node_modules'));
    await mkdir(manifests);
    await writeFile(join(manifests, 'orders.json'), JSON.stringify(manifest));
    for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), JSON.stringify(content));
    return testFiles(folder, { manifests });
  }

  it('finds the tests of a folder, and runs them without a secret or a request', async () => {
    const others = { 'other.test.json': { suites: [] }, 'node_modules/deep.test.json': saved, 'more.json': saved };
    const cases = await casesOf({ ...others, 'manifests/orders.test.json': saved, 'late.test.json': saved });
    expect(cases.map(({ name }) => name)).toEqual(['late.test.json', 'manifests/orders.test.json']);
    for (const { run } of cases) await run();
  });

  it('rejects with what differs, for the runner to show', async () => {
    const [differing] = await casesOf({ 'a.test.json': { ...saved, trigger: { ...trigger, body: { total: '8' } } } });
    const difference = 'requests.charge[0].headers.x-total\n    "7" -> "8"';
    await expect(differing?.run()).rejects.toMatchObject({
      message: expect.stringContaining(difference),
      expected: expected,
      actual: { requests: { charge: [{ headers: { 'x-total': '8' } }] } },
    });
    const [broken] = await casesOf({ 'a.test.json': { ...saved, answers: { chrage: [] } } });
    await expect(broken?.run()).rejects.toThrow('did you mean "charge"?');
    const [unread] = await casesOf({ 'a.test.json': { ...saved, flow: 7 } });
    await expect(unread?.run()).rejects.toThrow('flow is a number');
  });

  it('rejects where a manifest has an error', async () => {
    await expect(casesOf({ 'manifests/more.json': { id: ID, version: '' } })).rejects.toThrow(
      /The manifests cannot be run:\nerror .*more\.json/,
    );
  });
});
