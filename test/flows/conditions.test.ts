import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/model/json.ts';
import { openFlowService, openStarted, ownHandler, stepOf } from './fixture.ts';

const edge = (upstream: string, when: string) => ({ [upstream]: { statuses: ['Succeeded'] as const, when } });

/** Runs `a`, then `b` under a condition, then `c` after `b`; returns the run, its steps and the log. */
async function runWith(when: string, body: JsonObject = {}) {
  const service = await openStarted(
    {},
    {
      a: stepOf('LogMessage', { inputs: { message: { total: 7 } } }),
      b: stepOf('NoOp', { runAfter: edge('a', when) }),
      c: stepOf('NoOp', { runAfter: { b: { statuses: ['Succeeded'] } } }),
    },
  );
  const runId = await service.trigger(body);
  const run = await service.ended(runId);
  await service.runtime.stop(0);
  return { run, steps: await service.steps(runId), log: service.log };
}

describe('a condition', () => {
  it('that is true lets its step run, and what it read is on the record', async () => {
    const { run, steps, log } = await runWith('steps.a.output.total > trigger.body.least', { least: 5 });
    expect(run.status).toBe('Succeeded');
    expect(steps.b).toMatchObject({
      status: 'Succeeded',
      attemptCount: 1,
      evaluationTrace: [
        {
          after: 'a',
          expression: 'steps.a.output.total > trigger.body.least',
          values: { 'steps.a.output.total': 7, 'trigger.body.least': 5 },
          result: true,
        },
      ],
    });
    expect(log.events('StepSkipped')).toEqual([]);
  });

  it('that is false skips its step, which counts as never tried, and what runs after it', async () => {
    const { run, steps, log } = await runWith('trigger.body.least > 5', { least: 5 });
    expect(run.status).toBe('Skipped');
    expect(steps.b).toMatchObject({
      status: 'Skipped',
      skipReason: 'the condition on "a" is false: trigger.body.least > 5',
      attemptCount: 0,
      attempts: [],
      startedAt: null,
      error: null,
      evaluationTrace: [{ values: { 'trigger.body.least': 5 }, result: false }],
    });
    expect(steps.c).toMatchObject({ status: 'Skipped' });
    expect(log.events('StepStarted').map(({ stepKey }) => stepKey)).toEqual(['a']);
    expect(log.events('StepSkipped').map(({ stepKey }) => stepKey)).toEqual(['b', 'c']);
  });

  it.each([
    ['reads what is not there', 'trigger.body.missing'],
    ['gives no boolean', 'trigger.body.text'],
    ['compares what cannot be compared', 'trigger.body.text > 3'],
    ['reads a step that has not ended', 'steps.c.status == "Succeeded"'],
  ])('that %s fails its step: it neither passes nor skips', async (_what, when) => {
    const { run, steps, log } = await runWith(when, { text: 'yes' });
    expect(run.status).toBe('Failed');
    expect(steps.b).toMatchObject({
      status: 'Failed',
      error: { code: 'when_failed', retryable: false, message: expect.stringContaining('runAfter.a.when: ') },
      evaluationTrace: [{ expression: when, error: expect.any(String) }],
    });
    expect(steps.c).toMatchObject({ status: 'Skipped' });
    expect(log.events('WhenEvaluationFailed')).toMatchObject([{ eventId: 2005, stepKey: 'b' }]);
  });

  it('is false or broken whatever the conditions on other edges say', async () => {
    const service = await openStarted(
      {},
      {
        a: stepOf('NoOp'),
        b: stepOf('NoOp'),
        skipped: stepOf('NoOp', { runAfter: { ...edge('a', 'true'), ...edge('b', 'false') } }),
        broken: stepOf('NoOp', { runAfter: { ...edge('a', 'false'), ...edge('b', 'trigger.body.missing') } }),
      },
    );
    const runId = await service.trigger({});
    await service.ended(runId);
    expect(await service.steps(runId)).toMatchObject({
      skipped: { status: 'Skipped', evaluationTrace: [{ result: true }, { result: false }] },
      broken: { status: 'Failed', evaluationTrace: [{ result: false }, { error: expect.any(String) }] },
    });
  });

  it('is asked when its step starts, and not again before another attempt', async () => {
    let tries = 0;
    const flaky = ownHandler('Flaky', () => {
      tries += 1;
      if (tries === 1) return { kind: 'failed', code: 'down', message: 'down', retryable: true };
      return { kind: 'succeeded', output: null };
    });
    const service = await openFlowService({ own: [flaky] });
    const retry = { maxAttempts: 2, backoffSeconds: 0, factor: 1, maxBackoffSeconds: 0, jitter: false };
    await service.deploy({ a: stepOf('NoOp'), b: stepOf('Flaky', { retry, runAfter: edge('a', 'true') }) });
    await service.runtime.start();
    const runId = await service.trigger({});
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect((await service.steps(runId)).b).toMatchObject({ attemptCount: 2, evaluationTrace: [{ result: true }] });
  });
});
