import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runTest } from '../../../src/features/rehearsal/run-test.ts';
import type { SavedTest } from '../../../src/features/rehearsal/saved-test.ts';
import { defineHandler } from '../../../src/flows/handlers/handler.ts';
import { openSimulationStore } from '../../../src/store/offline.ts';
import { FLOW_ID, loaded, SECRET } from './flows.ts';

const ok = { output: { status: 200, headers: {}, body: { id: 'A1' } } };
const call = (body: unknown, rest = {}) => ({
  type: 'HttpRequest',
  inputs: { method: 'POST', url: 'https://api.example.com/orders', headers: { authorization: 'env:KEY' }, body },
  ...rest,
});
const STEPS = {
  order: call({ total: `\${trigger.body.total}` }, { retry: { maxAttempts: 2, backoffSeconds: 300, jitter: false } }),
  tell: { type: 'Transform', inputs: { value: `\${steps.order.output.body.id}` }, runAfter: { order: ['Succeeded'] } },
};

function saved(rest: Partial<SavedTest> = {}): SavedTest {
  const trigger = {
    key: 'hook',
    type: 'webhook',
    contentType: 'application/json',
    headers: {},
    body: { total: 7 },
  } as const;
  const about = { sluiceTest: 1, name: 'a test', flow: FLOW_ID, startedAt: '2026-03-01T12:00:00Z' } as const;
  return { ...about, trigger, answers: { order: [ok] }, signals: [], expected: {}, ...rest };
}

const run = (test: SavedTest, flow = loaded(STEPS), others: readonly ReturnType<typeof loaded>[] = []) =>
  runTest(test, {
    flows: [flow, ...others].map((each) => each.flow),
    handlers: flow.handlers,
    openStore: openSimulationStore,
  });

/** What a flow does, according to a test that expects nothing yet. */
async function expectationsOf(
  test: SavedTest,
  ...rest: [ReturnType<typeof loaded>?, (readonly ReturnType<typeof loaded>[])?]
) {
  const result = await run({ ...test, expected: {} }, ...rest);
  if (result.kind !== 'differs') throw new Error(JSON.stringify(result));
  return result.actual;
}

describe('a test', () => {
  it('has the end, the path, the requests, the waits and what the last steps left, and no secret', async () => {
    const busy = { output: { status: 503, headers: {}, body: null } };
    const actual = await expectationsOf(saved({ answers: { order: [busy, ok] } }));
    const request = {
      method: 'POST',
      url: 'https://api.example.com/orders',
      headers: { 'content-type': 'application/json', authorization: '[secret env:KEY]' },
      body: { total: 7 },
    };
    expect(actual).toEqual({
      end: 'Succeeded',
      path: { order: 'Succeeded', tell: 'Succeeded' },
      requests: { order: [request, request] },
      waits: { order: ['retry, 300 s'] },
      outputs: { tell: 'A1' },
    });
    expect(JSON.stringify(actual)).not.toContain(SECRET);
  });

  it('is the same each time, in whatever order steps come that run at once', async () => {
    const inner = loaded({ call: call(1) }, { id: FLOW_ID.replace(/10$/, '11') });
    const go = { type: 'RunFlow', inputs: { flow: inner.flow.manifest.id } };
    const each = { type: 'ForEach', forEach: [1, 2, 3], concurrencyLimit: 3, steps: { go } };
    const flow = loaded({ a: call(1), b: call(2), each, last: { ...go, runAfter: { each: ['Succeeded'] } } });
    const answers = Object.fromEntries(
      ['a', 'b', 'each.0.go/call', 'each.1.go/call', 'each.2.go/call', 'last/call'].map((path) => [path, [ok]]),
    );
    const expected = await expectationsOf(saved({ answers }), flow, [inner]);
    expect(expected.outputs).toEqual({ last: { runId: '[run last]', status: 'Succeeded', output: ok.output } });
    expect(await run(saved({ answers, expected }), flow, [inner])).toEqual({ kind: 'same' });
  });

  it('says where the flow does something else than is expected', async () => {
    const expected = await expectationsOf(saved());
    const changed = { ...STEPS, order: { ...STEPS.order, inputs: { ...STEPS.order.inputs, body: { total: 8 } } } };
    expect(await run(saved({ expected }), loaded(changed))).toMatchObject({
      kind: 'differs',
      differences: [{ path: 'requests.order[0].body.total', kind: 'changed', before: 7, after: 8 }],
      lacking: [],
    });
    expect(await run(saved({ expected: { end: 'Failed' } }))).toMatchObject({
      kind: 'differs',
      differences: [{ path: 'end', before: 'Failed', after: 'Succeeded' }],
    });
  });

  it('compares nothing that it does not name', async () => {
    expect(await run(saved({ expected: { end: 'Succeeded' } }))).toEqual({ kind: 'same' });
  });

  it('makes up no answer: it names the one that it lacks, and what follows is not known', async () => {
    const expected = await expectationsOf(saved());
    const more = { ...STEPS, audit: call({}, { runAfter: { tell: ['Succeeded'] } }) };
    expect(await run(saved({ expected }), loaded(more))).toMatchObject({
      kind: 'differs',
      differences: expect.arrayContaining([{ path: 'end', kind: 'changed', before: 'Succeeded', after: 'not known' }]),
      lacking: [{ path: 'answers.audit[0]', message: expect.stringContaining('POST https://api.example.com/orders') }],
    });
  });

  it('calls no code of the operator, whose answers it has too', async () => {
    const send = defineHandler({
      type: 'SendMail',
      inputs: z.unknown(),
      run: () => Promise.reject(new Error('called')),
    });
    const flow = loaded({ mail: { type: 'SendMail', inputs: { to: 'Ada' } } }, { own: [send] });
    const answers = { mail: [{ error: { code: 'bounced', message: 'No such box.', retryable: false } }] };
    const expected = await expectationsOf(saved({ answers }), flow);
    expect(expected).toMatchObject({
      end: 'Failed',
      path: { mail: 'Failed: bounced' },
      requests: { mail: [{ type: 'SendMail', input: { to: 'Ada' } }] },
    });
  });

  it('knows that its delivery starts no run where the trigger filters it', async () => {
    const hook = { type: 'webhook', inputs: { webhookWhen: 'body.total > 7' } };
    const flow = loaded(STEPS, { triggers: { hook } });
    expect(await expectationsOf(saved(), flow)).toEqual({
      end: 'filtered',
      path: {},
      requests: {},
      waits: {},
      outputs: {},
    });
    const more = saved({ trigger: { ...saved().trigger, body: { total: 8 } } });
    expect(await expectationsOf(more, flow)).toMatchObject({ end: 'Succeeded' });
    const byHand = saved({ trigger: { ...saved().trigger, key: 'hand', type: 'manual' } });
    const both = loaded(STEPS, { triggers: { hook, hand: { type: 'manual' } } });
    expect(await expectationsOf(byHand, both)).toMatchObject({ end: 'Succeeded' });
  });

  it('is stopped where its flow never ends', async () => {
    const flow = loaded({ each: { type: 'ForEach', forEach: [1, 2, 3, 4], steps: { a: { type: 'NoOp' } } } });
    const tested = { flows: [flow.flow], handlers: flow.handlers, openStore: openSimulationStore };
    const result = await runTest(saved({ answers: {} }), {
      ...tested,
      limits: { steps: 3, milliseconds: 60_000, bytes: 10_000 },
    });
    const message = 'does not end: it was stopped after 3 attempts of steps';
    expect(result).toEqual({ kind: 'error', problems: [{ path: '', message }] });
  });

  const answers = (...paths: string[]) => ({ answers: Object.fromEntries(paths.map((path) => [path, []])) });
  const inner = loaded({ call: call(1) }, { id: FLOW_ID.replace(/10$/, '11') });
  const nesting = loaded({
    loop: { type: 'ForEach', forEach: [1], steps: { child: { type: 'NoOp' } } },
    go: { type: 'RunFlow', inputs: { flow: inner.flow.manifest.id } },
    lost: { type: 'RunFlow', inputs: { flow: FLOW_ID.replace(/10$/, '12') } },
  });
  it.each([
    ['an unknown flow', { flow: FLOW_ID.replace(/10$/, '99') }, 'flow', 'no manifest has this id'],
    ['an unknown trigger', { trigger: { ...saved().trigger, key: 'hok' } }, 'trigger.key', 'did you mean "hook"?'],
    ['an unknown step', answers('gone'), 'answers.gone', 'the flow has no step "gone"'],
    ['an unknown child', answers('loop.0.chil'), 'answers["loop.0.chil"]', 'the flow has no step "loop.0.chil"'],
    ['no iteration', answers('loop.child'), 'answers["loop.child"]', 'the flow has no step'],
    ['what only an object has', answers('toString'), 'answers.toString', 'the flow has no step "toString"'],
    ['a sub-run of none', answers('loop/call'), 'answers["loop/call"]', 'runs no flow'],
    ['a step of a flow that is not there', answers('lost/call'), 'answers["lost/call"]', 'no manifest has the id'],
    ['an unknown step of a sub-run', answers('go#2/cal'), 'answers["go#2/cal"]', 'did you mean "call"?'],
    ['a failure that starts nothing', answers('(onFailure)/a'), 'answers["(onFailure)/a"]', 'has no onFailure'],
    [
      'a step for a signal',
      { signals: [{ step: 'gone', name: 'go', body: null }] },
      'signals[0].step',
      'no step "gone"',
    ],
  ])('that names %s has an error with its place', async (_, rest, path, message) => {
    const result = await run(saved({ answers: {}, ...rest }), nesting, [inner]);
    expect(result).toEqual({ kind: 'error', problems: [{ path, message: expect.stringContaining(message) }] });
  });

  it('may have an answer for each place that a run can come to', async () => {
    const given = answers('loop.0.child', 'go/call', 'go#2/call');
    expect(await run(saved({ ...given, expected: { end: 'x' } }), nesting, [inner])).toMatchObject({ kind: 'differs' });
  });
});
