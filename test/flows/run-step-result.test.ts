import { inspect } from 'node:util';
import { describe, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import type { StepHandler } from '../../src/flows/handlers/handler.ts';
import { Lease } from '../../src/flows/leases.ts';
import { InternalFaultError } from '../../src/flows/load-once.ts';
import type { StepDefinition } from '../../src/model/manifest.ts';
import type { Claim } from '../../src/store/store.ts';
import { cel, FLOW_ID, START } from './fixture.ts';
import { CLAIM, fail, handlerOf, retry, succeed, tryStep, useStore } from './try-step.ts';

useStore();

describe('the result', () => {
  const cyclic: unknown[] = [];
  cyclic.push({ cyclic });

  it.each([
    ['a function', { output: { a: [() => 1] } }, 'output_not_json', 'output.a[0] is a function'],
    ['a date', { output: new Date(0) }, 'output_not_json', 'output is an instance of Date'],
    ['a number that JSON does not have', { output: { n: Number.NaN } }, 'output_not_json', 'output.n is NaN'],
    ['a big integer', { output: 1n }, 'output_not_json', 'output is a bigint'],
    ['a hole', { output: [undefined] }, 'output_not_json', 'output[0] is undefined'],
    ['nothing', {}, 'output_not_json', 'output is undefined'],
    ['a value that contains itself', { output: cyclic }, 'output_not_json', 'nested deeper than 500 levels'],
    ['more than 1 MiB', { output: 'a'.repeat(1_048_575) }, 'output_too_large', '1048577 bytes'],
  ])('fails the step where its output is %s', async (_what, output, code, message) => {
    const { ran } = await tryStep({ handler: handlerOf(() => ({ kind: 'succeeded', ...output })), step: { retry } });
    expect(ran?.result).toMatchObject({
      kind: 'failed',
      error: { code, message: expect.stringContaining(message), retryable: false },
    });
  });

  it('may be 1 MiB', async () => {
    const output = 'a'.repeat(1_048_574);
    const { ran } = await tryStep({ handler: handlerOf(() => ({ kind: 'succeeded', output })) });
    expect(ran?.result.kind).toBe('succeeded');
  });

  it('may have properties that are undefined', async () => {
    const { ran } = await tryStep({
      handler: handlerOf(() => ({ kind: 'succeeded', output: { a: undefined, b: 1 } })),
    });
    expect(ran?.result).toMatchObject({ kind: 'succeeded', output: { b: 1 } });
  });

  it('of a failure keeps the failure where the output cannot be kept', async () => {
    const { ran } = await tryStep({ handler: fail({ output: () => 1 }) });
    expect(ran?.result).toEqual({
      kind: 'failed',
      error: {
        code: 'down',
        message: 'is down (its output is not stored: output is a function, which JSON cannot hold)',
        retryable: true,
      },
    });
  });

  it.each([
    ['undefined', undefined],
    ['a text', 'ok'],
    ['another kind', { kind: 'done' }],
  ])('fails the step where the handler yields %s', async (_what, yielded) => {
    const { ran } = await tryStep({ handler: handlerOf(async () => yielded) });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code: 'handler_error' } });
  });
});

describe('a failed attempt', () => {
  const rows: [string, StepHandler, Partial<StepDefinition>, Partial<Claim>, number | undefined][] = [
    ['is not tried again without a policy', fail(), {}, {}, undefined],
    ['is tried again after the back-off', fail(), { retry }, { attempt: 2 }, 6_000],
    ['is tried again as late as the handler says', fail({ retryAfterMs: 90_000 }), { retry }, {}, 90_000],
    ['ignores a wait that is no number', fail({ retryAfterMs: Number.NaN }), { retry }, {}, 2_000],
    ['is not tried again after the last', fail(), { retry }, { attempt: 3 }, undefined],
    ['is not tried again where it would end the same', fail({ retryable: false }), { retry }, {}, undefined],
    ['does not count the attempts that were interrupted', fail(), { retry }, { attempt: 4, interruptions: 2 }, 6_000],
    ['is tried again where the handler threw', handlerOf(() => Promise.reject(new Error('x'))), { retry }, {}, 2_000],
  ];
  it.each(rows)('%s', async (_rule, handler, step, claim, waitMs) => {
    const { ran } = await tryStep({ handler, step, claim });
    expect(ran?.result).toMatchObject(
      waitMs === undefined ? { kind: 'failed' } : { kind: 'retry', dueAt: START + waitMs },
    );
  });

  it('waits where a secret could not be read', async () => {
    const { ran } = await tryStep({ handler: succeed, step: { inputs: { token: 'env:OTHER' }, retry } });
    expect(ran?.result).toMatchObject({
      kind: 'waiting',
      state: { secretWait: expect.stringMatching(/^inputs\.token: /) },
      dueAt: START + 1000,
      signalName: null,
    });
    expect(ran?.result).not.toHaveProperty('limitAt');
  });
});

describe('an attempt', () => {
  it('has an idempotency key that does not change', async () => {
    const handler = handlerOf(({ idempotencyKey, attempt }) => ({
      kind: 'succeeded',
      output: { idempotencyKey, attempt },
    }));
    const { ran } = await tryStep({ handler, claim: { attempt: 7 } });
    expect(ran?.result).toMatchObject({ output: { idempotencyKey: 'run-1:only', attempt: 7 } });
  });

  it('logs with the ids of its run and step', async () => {
    const handler = handlerOf(({ logger }) => {
      logger.info('here');
      return { kind: 'succeeded', output: null };
    });
    const { log } = await tryStep({ handler });
    expect(log.lines).toMatchObject([{ msg: 'here', runId: 'run-1', stepKey: 'only', flowId: FLOW_ID }]);
  });

  it('fails retryably when its time is up, and its handler is told', async () => {
    let aborted: AbortSignal | undefined;
    const handler = handlerOf(({ signal }) => {
      aborted = signal;
      return new Promise(() => {});
    });
    const { ran } = await tryStep({ handler, step: { timeoutSeconds: 0.01 } });
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code: 'timeout', retryable: true } });
    expect(aborted?.aborted).toBe(true);
  });

  it('says what it waited for where its time is up while it waits for a host', async () => {
    const why = 'the circuit of https://api.example.com has been open since noon';
    const state = { hostTurn: 'https://api.example.com', since: START, barredSince: START, probes: 0, why };
    const claim = { attemptStartedAt: START - 60_000, resumed: { state, signal: null } };
    const { ran } = await tryStep({
      handler: { ...succeed, whyWaiting: () => why },
      step: { timeoutSeconds: 60 },
      claim,
    });
    const message = `the step took longer than its 60 s; it waited because ${why}`;
    expect(ran?.result).toMatchObject({ kind: 'failed', error: { code: 'timeout', message } });
  });

  it('is given no more than its whole time limit where the clock was set back while it waited', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout');
    const handler = handlerOf(async () => ({ kind: 'succeeded', output: null }));
    const claim = { attemptStartedAt: START + 90 * 86_400_000, resumed: { state: null, signal: null } };
    const { ran } = await tryStep({ handler, step: { timeoutSeconds: 60 }, claim });
    expect(timers.mock.calls.map(([, delayMs]) => delayMs)).toEqual([60_000]);
    timers.mockRestore();
    expect(ran?.result).toMatchObject({ kind: 'succeeded' });
  });

  it.each([undefined, 60])('yields nothing when it is aborted, with a time limit of %s s', async (timeoutSeconds) => {
    const lease = new Lease(CLAIM, 0);
    const handler = handlerOf(({ signal }) => {
      lease.abort(new Error('the process stops'));
      expect(signal.aborted).toBe(true);
      return new Promise(() => {});
    });
    const { ran } = await tryStep({ handler, step: { timeoutSeconds }, lease });
    expect(ran).toBeUndefined();
  });

  it('makes a signal only for a handler that asks, and for a copy of its context too', async () => {
    const lease = new Lease(CLAIM, 0);
    const made = vi.spyOn(globalThis, 'AbortController');
    await tryStep({ handler: succeed, lease });
    expect(made).not.toHaveBeenCalled();
    const handler = handlerOf((context) => {
      const { signal, logger } = { ...context };
      expect(signal).toBe(context.signal);
      expect(signal.aborted).toBe(false);
      expect(logger).toBe(context.logger);
      return { kind: 'succeeded', output: null };
    });
    expect((await tryStep({ handler, lease })).ran?.result).toMatchObject({ kind: 'succeeded' });
    expect(made).toHaveBeenCalledOnce();
    made.mockRestore();
    expect(lease.signal.aborted).toBe(false);
    lease.abort(new Error('first'));
    lease.abort(new Error('second'));
    expect(lease.signal.reason).toMatchObject({ message: 'first' });
  });

  it('shows who prints its context nothing of the process', async () => {
    const lease = new Lease({ ...CLAIM, token: 'token-of-the-lease' }, 0);
    let [printed, keys]: [string, (string | symbol)[]] = ['', []];
    const handler = handlerOf((context) => {
      printed = inspect(context, { depth: null, showHidden: true });
      keys = Reflect.ownKeys(context);
      expect(Object.create(context).logger).toBe(context.logger);
      return { kind: 'succeeded', output: null };
    });
    expect((await tryStep({ handler, lease })).ran?.result).toMatchObject({ kind: 'succeeded' });
    expect(printed).toContain(FLOW_ID);
    expect(printed).not.toContain('token-of-the-lease');
    expect(keys.filter((key) => typeof key === 'symbol')).toEqual([]);
  });

  it('does not begin once it is aborted', async () => {
    const handler = handlerOf(() => {
      throw new Error('it began');
    });
    const lease = new Lease(CLAIM, 0);
    lease.abort(new Error('the process stops'));
    expect((await tryStep({ handler, lease })).ran).toBeUndefined();
  });

  it('fails the step if its type has no handler any more', async () => {
    const { ran } = await tryStep({ handler: succeed, claim: { stepType: 'Gone' } });
    expect(ran).toMatchObject({
      input: null,
      result: { kind: 'failed', error: { code: 'unknown_handler', message: expect.stringContaining('"Gone"') } },
    });
  });

  it.each([
    ['a revision that is not stored', { handler: succeed, claim: { revision: 999 } }],
    [
      'a part of Sluice that cannot be loaded',
      { handler: handlerOf(() => Promise.reject(new InternalFaultError('undici is gone'))) },
    ],
  ])('is a fault of our own for %s, which uses up no attempt', async (_, step) => {
    const { ran } = await tryStep(step);
    expect(ran?.result).toMatchObject({
      kind: 'retry',
      isUncounted: true,
      error: { code: 'internal_error', retryable: true },
      dueAt: expect.any(Number),
    });
  });

  it.each([
    [19, 'retry'],
    [20, 'failed'],
  ])('after %i attempts that did not count, a fault of our own gives %s', async (attemptBase, kind) => {
    const claim = { revision: 999, attempt: attemptBase + 1, attemptBase };
    const { ran } = await tryStep({ handler: succeed, claim });
    expect(ran?.result).toMatchObject({ kind, error: { code: 'internal_error', retryable: kind === 'retry' } });
  });

  it.each([
    [2, 'succeeded'],
    [3, 'failed'],
  ])('that took the process down %i times, running alone, has %s', async (loneDeaths, kind) => {
    const { ran } = await tryStep({ handler: succeed, claim: { attempt: 4, interruptions: 3, loneDeaths } });
    expect(ran?.result.kind).toBe(kind);
    if (ran?.result.kind === 'failed') expect(ran.result.error.code).toBe('interrupted_too_often');
  });

  it('runs again, however often it was interrupted next to others', async () => {
    const { ran } = await tryStep({ handler: succeed, claim: { attempt: 50, interruptions: 49 } });
    expect(ran?.result.kind).toBe('succeeded');
  });

  it.each([
    ['its inputs', succeed, { inputs: { a: cel('trigger.body') } }],
    ['its handler', handlerOf(({ trigger }) => trigger()), {}],
  ])('does not fail the step if the store has no answer for %s', async (_what, handler, step) => {
    const runInput = new StoreUnavailableError('the disk is full');
    await expect(tryStep({ handler, step, runInput })).rejects.toBe(runInput);
  });
});
