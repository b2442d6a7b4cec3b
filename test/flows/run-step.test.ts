import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { StepHandler } from '../../src/flows/handlers/handler.ts';
import { cel } from './fixture.ts';
import { handlerOf, RUN_INPUT, retry, SECRET, succeed, tryStep, useStore } from './try-step.ts';

useStore();

describe('inputs', () => {
  it('that hold no expression are taken as they are, and nothing is read', async () => {
    const { ran, reads } = await tryStep({ handler: succeed, step: { inputs: { a: [1, '$${x}'] } } });
    expect(ran).toEqual({
      input: { a: [1, cel('x')] },
      inputsRevision: 1,
      result: { kind: 'succeeded', output: { a: [1, cel('x')] } },
    });
    expect(reads).toBe(0);
  });

  it('that read nothing of the run do not load it', async () => {
    const { ran, reads } = await tryStep({ handler: succeed, step: { inputs: { a: cel('1 + 1') } } });
    expect(ran?.input).toEqual({ a: 2 });
    expect(reads).toBe(0);
  });

  it('see what started the run and what its steps left, read once', async () => {
    const handler = handlerOf(async ({ trigger, inputs }) => ({
      kind: 'succeeded',
      output: { ...inputs, type: (await trigger()).contentType },
    }));
    const inputs = { name: cel('trigger.body.name'), key: cel('trigger.key'), n: cel('steps.first.output.n') };
    const { ran, reads } = await tryStep({ handler, step: { inputs } });
    expect(ran?.input).toEqual({ name: 'Ada', key: 'hook', n: 3 });
    expect(ran?.result).toMatchObject({ output: { type: 'application/json' } });
    expect(reads).toBe(1);
  });

  it.each([
    ['an expression that fails', { a: cel('trigger.body.missing') }, 'expression_failed', /^inputs\.a: expression/],
    ['a value that the handler does not take', { count: 'three' }, 'invalid_input', /^inputs\.count: /],
  ])('with %s fail the step with its path', async (_what, inputs, code, message) => {
    const { ran } = await tryStep({ handler: succeed, step: { inputs } });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code, message: expect.stringMatching(message) } });
  });

  it('that do not fit are not tried again', async () => {
    const { ran } = await tryStep({ handler: succeed, step: { inputs: { count: 'three' }, retry } });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { retryable: false } });
  });

  it.each([
    ['written out', { list: [2, 1] }],
    ['rendered', { list: cel('[2, 1]') }],
    ['beside a secret', { list: [2, 1], token: 'env:TOKEN' }],
  ])('that are %s cannot be changed by the handler', async (_what, inputs) => {
    const handler = handlerOf(({ inputs: { list } }) => {
      (list as number[]).sort();
      return { kind: 'succeeded', output: null };
    });
    const { ran } = await tryStep({ handler, step: { inputs } });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code: 'handler_error' } });
    expect(ran?.input).toMatchObject({ list: [2, 1] });
  });

  it('nested deeper than can be kept fail the step', async () => {
    const depth = 2_000;
    const body = Buffer.from('['.repeat(depth) + ']'.repeat(depth));
    const runInput = { ...RUN_INPUT, trigger: { ...RUN_INPUT.trigger, body } };
    const { ran } = await tryStep({ handler: succeed, step: { inputs: { a: cel('trigger.body') } }, runInput });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { retryable: false } });
    expect(ran?.input).toBeNull();
  });
});

describe('secrets', () => {
  it('reach the handler and nothing that is recorded', async () => {
    let seen: unknown;
    const handler = handlerOf(({ inputs }) => {
      seen = inputs.token;
      return { kind: 'succeeded', output: { [SECRET]: [`token=${SECRET}`] } };
    });
    const { ran } = await tryStep({ handler, step: { inputs: { token: 'env:TOKEN', other: 'x' } } });
    expect(seen).toBe(SECRET);
    expect(ran?.input).toEqual({ token: '***', other: 'x' });
    expect(ran?.result).toEqual({ kind: 'succeeded', output: { '***': ['token=***'] } });
  });

  it.each([
    [
      'the message of a failure',
      () => ({ kind: 'failed', code: 'no', message: `bad ${SECRET}`, retryable: false, output: [SECRET] }),
    ],
    ['an error that is thrown', () => Promise.reject(new Error(`bad ${SECRET}`))],
    [
      'an error that is thrown at once',
      () => {
        throw new Error(`bad ${SECRET}`);
      },
    ],
    ['an output that is not kept', () => ({ kind: 'succeeded', output: { [SECRET]: () => {} } })],
    [
      'the end of a long message',
      () => {
        throw new Error('x'.repeat(3_990) + SECRET);
      },
    ],
  ])('are masked in %s', async (_what, run) => {
    const { ran, log } = await tryStep({ handler: handlerOf(run), step: { inputs: { token: 'env:TOKEN' } } });
    expect(ran?.result).toMatchObject({ kind: 'failed' });
    expect(JSON.stringify([ran, log.lines])).not.toMatch(/p4ss/);
  });

  it('that the schema refuses are not named', async () => {
    const handler: StepHandler = {
      ...succeed,
      inputs: z.object({ token: z.string().refine(() => false, { error: (issue) => `cannot use ${issue.input}` }) }),
    };
    const { ran } = await tryStep({ handler, step: { inputs: { token: 'env:TOKEN' } } });
    expect(ran?.result).toMatchObject({ error: { code: 'invalid_input', message: 'inputs.token: cannot use ***' } });
  });

  it('are not read because data says so', async () => {
    const { ran } = await tryStep({ handler: succeed, step: { inputs: { token: cel('trigger.body.ref') } } });
    expect(ran?.result).toEqual({ kind: 'succeeded', output: { token: 'env:TOKEN' } });
  });

  it('that are masked in a stored manifest fail the step instead of being sent as a mask', async () => {
    let isCalled = false;
    const handler = handlerOf(() => {
      isCalled = true;
    });
    const { ran } = await tryStep({ handler, step: { inputs: { token: '***' } } });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code: 'secret_not_kept', retryable: false } });
    expect(isCalled).toBe(false);
  });
});
