import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runFlow } from '../../src/features/rehearsal/testing.ts';
import { defineHandler } from '../../src/flows/handlers/handler.ts';
import { type Json, parseJson } from '../../src/model/json.ts';
import { serve } from './handlers/loopback-server.ts';

const ID = '12345678901234567890';
const FLOW = '7f1f1b1c-3f0e-4a51-9a51-3f0f8d1c2a10';
const flow = (steps: object) => ({
  id: FLOW,
  version: '1',
  triggers: { hook: { type: 'manual' } },
  steps,
});
/** A placeholder. */
const of = (expression: string) => `\${${expression}}`;
const pass = (value: string) => ({ type: 'Transform', inputs: { value } });
const text = (value: Json | undefined) => JSON.stringify(value);

describe('a number that a double would change', () => {
  it('passes through a flow unchanged, in any JSON', async () => {
    const number = fc
      .tuple(fc.bigInt({ min: -(10n ** 22n), max: 10n ** 22n }), fc.constantFrom('', '.0', '.10', '.125', 'e3', 'E+5'))
      .map(([whole, rest]) => `${whole}${rest}`);
    const json = fc.oneof(
      number,
      fc.array(number, { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
      fc
        .array(number, { maxLength: 4 })
        .map((items) => `{"a":{${items.map((item, at) => `"k${at}":[${item}]`).join(',')}}}`),
    );
    await fc.assert(
      fc.asyncProperty(json, async (body) => {
        const steps = {
          one: pass(of('trigger.body')),
          two: { ...pass(of('steps.one.output')), runAfter: { one: {} } },
        };
        const run = await runFlow(flow(steps), { body: parseJson(body) });
        expect(text(run.steps.two?.output)).toBe(body);
        expect(text(run.steps.two?.input)).toBe(`{"value":${body}}`);
      }),
      { numRuns: 15 },
    );
  });

  it('reaches a loop, a condition, a signal and a wait', async () => {
    const steps = {
      each: {
        type: 'ForEach',
        forEach: of('trigger.body.ids'),
        steps: { show: pass(`id ${of('loop.item')}`), keep: { ...pass(of('loop.item')), runAfter: { show: {} } } },
      },
      yes: { ...pass('yes'), runAfter: { each: { when: `trigger.body.ids[0] == ${ID}u` } } },
      wait: { type: 'WaitForSignal', inputs: { signalName: 'go' }, runAfter: { yes: {} } },
    };
    const run = await runFlow(flow(steps), {
      body: parseJson(`{"ids":[${ID},1.10]}`),
      signals: { go: parseJson(`{"ref":${ID}}`) },
    });
    expect(run.steps['each.0.show']?.output).toBe(`id ${ID}`);
    expect(text(run.steps.each?.output)).toBe(`[${ID},1.10]`);
    expect(run.steps.yes?.status).toBe('Succeeded');
    expect(text(run.steps.yes?.evaluationTrace)).toContain(`"trigger.body.ids[0]":${ID}`);
    expect(text(run.steps.wait?.output)).toBe(`{"ref":${ID}}`);
  });

  it('names the same thing in a URL, a query, a header, a body and an answer', async () => {
    const { origin, received } = await serve((_request, response) =>
      response.setHeader('content-type', 'application/json').end(`{"id":${ID},"paid":1.10}`),
    );
    const steps = {
      call: {
        type: 'HttpRequest',
        inputs: {
          url: `${origin}/orders/${of('trigger.body.id')}`,
          method: 'POST',
          query: { id: of('trigger.body.id'), all: [of('trigger.body.id')] },
          headers: { 'x-id': of('trigger.body.id') },
          body: { id: of('trigger.body.id'), price: of('trigger.body.price') },
          timeoutSeconds: of('trigger.body.seconds'),
        },
      },
      pass: { ...pass(of('steps.call.output.body')), runAfter: { call: {} } },
    };
    const run = await runFlow(flow(steps), {
      body: parseJson(`{"id":${ID},"price":0.50,"seconds":5.0}`),
      egressAllow: ['127.0.0.1'],
    });
    expect(run.steps.call?.error).toBeNull();
    expect(received[0]).toMatchObject({ url: `/orders/${ID}?id=${ID}&all=${ID}` });
    expect(received[0]?.headers['x-id']).toBe(ID);
    expect(String(received[0]?.body)).toBe(`{"id":${ID},"price":0.50}`);
    expect(text(run.steps.pass?.output)).toBe(`{"id":${ID},"paid":1.10}`);
  });

  it('is a number to a handler that asks for one', async () => {
    const typed = defineHandler({
      type: 'Typed',
      inputs: z.object({ count: z.number(), deep: z.object({ list: z.array(z.number()) }), any: z.unknown() }),
      run: ({ inputs }) => ({ kind: 'succeeded', output: [inputs.count, ...inputs.deep.list, inputs.any as Json] }),
    });
    const inputs = { count: of('trigger.body'), deep: { list: [of('trigger.body'), 2] }, any: of('trigger.body') };
    const run = await runFlow(flow({ one: { type: 'Typed', inputs } }), {
      body: parseJson('5.0'),
      handlers: { Typed: typed },
    });
    expect(run.steps.one?.error).toBeNull();
    expect(text(run.steps.one?.output)).toBe('[5,5,2,5.0]');
  });

  it('is masked around, not away', async () => {
    const steps = {
      one: {
        type: 'HttpRequest',
        inputs: {
          url: 'http://127.0.0.1:9/',
          method: 'POST',
          headers: { authorization: 'env:TOKEN' },
          body: of('trigger.body'),
        },
      },
    };
    const run = await runFlow(flow(steps), { body: parseJson(`[${ID}]`), secrets: { 'env:TOKEN': 'a long secret' } });
    expect(text(run.steps.one?.input)).toContain(`"body":[${ID}]`);
  });
});
