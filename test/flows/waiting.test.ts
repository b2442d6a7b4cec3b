import { describe, expect, it } from 'vitest';
import type { Json } from '../../src/model/json.ts';
import type { StepDetail } from '../../src/store/store.ts';
import { cel, type FlowService, openFlowService, ownHandler, START, stepOf, until } from './fixture.ts';

const behind = (key: string) => ({ runAfter: { [key]: { statuses: ['Succeeded'] as const } } });

/** Waits until the step waits: until a later time, or for a signal. */
async function waiting(service: FlowService, runId: string, stepKey: string) {
  const waits = (step?: StepDetail) => step?.status === 'Pending' && step.attemptCount > 0;
  return (await until(async () => (await service.steps(runId))[stepKey], waits)) as StepDetail;
}

/** Advances the clock and starts what fell due. */
function pass(service: FlowService, ms: number): void {
  service.clock.pass(ms);
  service.runtime.dispatcher.nudge();
}

async function started(
  service: FlowService,
  steps: Parameters<FlowService['deploy']>[0],
  body: Json = {},
): Promise<string> {
  await service.deploy(steps);
  await service.runtime.start();
  return service.trigger(body);
}

describe('a Delay', () => {
  it('waits as a row that is due when it ends, in one attempt', async () => {
    const service = await openFlowService();
    const runId = await started(service, {
      wait: stepOf('Delay', { inputs: { seconds: 60 } }),
      next: stepOf('NoOp', behind('wait')),
    });
    expect(await waiting(service, runId, 'wait')).toMatchObject({ dueAt: START + 60_000, attemptCount: 1 });
    pass(service, 59_999);
    await service.store.ping();
    expect((await service.steps(runId)).wait?.status).toBe('Pending');
    pass(service, 1);
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded', completedAt: START + 60_000 });
    const { wait } = await service.steps(runId);
    expect(wait).toMatchObject({ output: null, attempts: [{ attempt: 1, status: 'Succeeded', startedAt: START }] });
    expect(service.log.events('StepStarted').map(({ stepKey }) => stepKey)).toEqual(['wait', 'next']);
  });

  it.each([
    ['until a time', { until: '2026-03-01T13:00:01+01:00' }, 1000],
    ['until a time that an expression gives', { until: cel('trigger.body.at') }, 5000],
  ])('waits %s', async (_what, inputs, ms) => {
    const service = await openFlowService();
    const runId = await started(service, { wait: stepOf('Delay', { inputs }) }, { at: '2026-03-01T12:00:05Z' });
    expect(await waiting(service, runId, 'wait')).toMatchObject({ dueAt: START + ms });
    pass(service, ms);
    await service.ended(runId);
  });

  it.each([
    ['neither', {}],
    ['both', { seconds: 1, until: '2026-03-01T13:00:01Z' }],
    ['a time without an offset', { until: '2026-03-01T13:00:01' }],
    ['a negative number', { seconds: -1 }],
  ])('with %s fails', async (_what, inputs) => {
    const service = await openFlowService();
    const runId = await started(service, { wait: stepOf('Delay', { inputs }) });
    expect(await service.ended(runId)).toMatchObject({ status: 'Failed' });
    expect((await service.steps(runId)).wait?.error?.code).toBe('invalid_input');
  });

  it('lets a deploy change what follows it, and the revision of its run stays', async () => {
    const service = await openFlowService();
    const steps = (value: Json) => ({
      wait: stepOf('Delay', { inputs: { seconds: 60 } }),
      next: stepOf('Transform', { inputs: { value }, ...behind('wait') }),
    });
    const runId = await started(service, steps('before'));
    await waiting(service, runId, 'wait');
    const revision = (await service.store.findRun(runId))?.revision;
    await service.deploy(steps(['after', cel('run.revision')]));
    pass(service, 60_000);
    await service.ended(runId);
    expect((await service.steps(runId)).next?.output).toEqual(['after', revision]);
  });

  it('waits while the clock is set back, and ends at the time that it named', async () => {
    const service = await openFlowService();
    const runId = await started(service, { wait: stepOf('Delay', { inputs: { seconds: 60 } }) });
    await waiting(service, runId, 'wait');
    service.clock.set(-3_600_000);
    pass(service, 60_000);
    await service.store.ping();
    expect((await service.steps(runId)).wait).toMatchObject({ status: 'Pending', dueAt: START + 60_000 });
    pass(service, 3_600_000);
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded', completedAt: START + 60_000 });
  });

  it('goes on in another process', async () => {
    const service = await openFlowService();
    const runId = await started(service, { wait: stepOf('Delay', { inputs: { seconds: 60 } }) });
    await waiting(service, runId, 'wait');
    await service.runtime.stop(0);
    const next = await openFlowService({ store: service.store });
    next.clock.pass(60_000);
    await next.deploy({ wait: stepOf('Delay', { inputs: { seconds: 60 } }) });
    await next.runtime.start();
    expect(await next.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect((await next.steps(runId)).wait?.attemptCount).toBe(1);
  });
});

describe('a step that waits for a signal', () => {
  const approval = { approve: stepOf('WaitForSignal', { inputs: { signalName: 'approved', timeoutSeconds: 60 } }) };
  const send = (service: FlowService, runId: string, body: Json) =>
    service.store.deliverSignal({ runId, name: 'approved', body, at: service.clock.now() });

  it('goes on when it comes, with its body', async () => {
    const service = await openFlowService();
    const runId = await started(service, approval);
    expect(await waiting(service, runId, 'approve')).toMatchObject({ dueAt: START + 60_000 });
    expect(await send(service, runId, { by: 'Ada' })).toEqual({ kind: 'accepted', stepKey: 'approve' });
    expect(await send(service, runId, {})).toEqual({ kind: 'duplicate' });
    pass(service, 0);
    await service.ended(runId);
    expect((await service.steps(runId)).approve).toMatchObject({ status: 'Succeeded', output: { by: 'Ada' } });
    expect(await send(service, runId, {})).toEqual({ kind: 'ended', status: 'Succeeded' });
  });

  it('takes one that came before it waited', async () => {
    const service = await openFlowService();
    const runId = await started(service, {
      first: stepOf('Delay', { inputs: { seconds: 5 } }),
      approve: { ...approval.approve, ...behind('first') },
    });
    expect(await send(service, runId, 1)).toEqual({ kind: 'accepted', stepKey: null });
    expect(await send(service, runId, 2)).toEqual({ kind: 'duplicate' });
    await waiting(service, runId, 'first');
    pass(service, 5000);
    await service.ended(runId);
    expect((await service.steps(runId)).approve?.output).toBe(1);
  });

  it('fails when its time is up', async () => {
    const service = await openFlowService();
    const runId = await started(service, approval);
    await waiting(service, runId, 'approve');
    pass(service, 60_000);
    expect(await service.ended(runId)).toMatchObject({ status: 'Failed' });
    expect((await service.steps(runId)).approve?.error).toMatchObject({ code: 'signal_timeout', retryable: false });
  });

  it('goes on with one that came in time, although its turn comes after its time limit', async () => {
    const service = await openFlowService();
    const runId = await started(service, {
      approve: stepOf('WaitForSignal', { inputs: { signalName: 'approved' }, timeoutSeconds: 60 }),
    });
    await waiting(service, runId, 'approve');
    service.clock.pass(59_999);
    expect(await send(service, runId, 'yes')).toEqual({ kind: 'accepted', stepKey: 'approve' });
    pass(service, 10_000);
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect((await service.steps(runId)).approve?.output).toBe('yes');
  });

  it('waits for a signal of its own where another step took the first', async () => {
    const service = await openFlowService();
    const runId = await started(service, { one: approval.approve, two: { ...approval.approve, ...behind('one') } });
    await waiting(service, runId, 'one');
    await send(service, runId, 1);
    pass(service, 0);
    await waiting(service, runId, 'two');
    expect(await send(service, runId, 2)).toEqual({ kind: 'accepted', stepKey: 'two' });
    pass(service, 0);
    await service.ended(runId);
    const { one, two } = await service.steps(runId);
    expect([one?.output, two?.output]).toEqual([1, 2]);
  });
});

describe('a handler that waits', () => {
  it('is handed a signal once, and not again when the time of its next wait comes', async () => {
    const seen: Json[] = [];
    const own = ownHandler('Own', ({ resumed, now }) => {
      seen.push(resumed?.signal?.body ?? null);
      if (seen.length === 3) return { kind: 'succeeded', output: null };
      return { kind: 'waiting', signalName: 'go', until: now() + 1000 };
    });
    const service = await openFlowService({ own: [own] });
    const runId = await started(service, { own: stepOf('Own') });
    await waiting(service, runId, 'own');
    await service.store.deliverSignal({ runId, name: 'go', body: 'first', at: service.clock.now() });
    pass(service, 0);
    await until(() => seen.length === 2);
    await waiting(service, runId, 'own');
    pass(service, 1000);
    await service.ended(runId);
    expect(seen).toEqual([null, 'first', null]);
  });

  it('is handed the signal again by the next attempt where it failed with it', async () => {
    const seen: Json[] = [];
    const own = ownHandler('Own', ({ resumed, attempt }) => {
      if (resumed?.signal == null) return { kind: 'waiting', signalName: 'go' };
      seen.push([attempt, resumed.signal.body]);
      if (attempt < 3) return { kind: 'failed', code: 'down', message: 'is down', retryable: attempt < 2 };
      return { kind: 'succeeded', output: resumed.signal.body };
    });
    const service = await openFlowService({ own: [own] });
    const retry = { maxAttempts: 5, backoffSeconds: 0, factor: 1, maxBackoffSeconds: 0, jitter: false };
    const runId = await started(service, { own: stepOf('Own', { retry }) });
    await waiting(service, runId, 'own');
    await service.runtime.control.signal({ runId, name: 'go', body: 'yes' });
    expect(await service.ended(runId)).toMatchObject({ status: 'Failed' });
    await service.runtime.control.retryStep(runId, 'own');
    await until(() => seen.length === 3);
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded' });
    expect(seen).toEqual([
      [1, 'yes'],
      [2, 'yes'],
      [3, 'yes'],
    ]);
  });

  it('is called again with what it kept, in the same attempt, and its time limit counts the wait', async () => {
    const seen: unknown[] = [];
    const own = ownHandler('Own', ({ resumed, attempt, now }) => {
      seen.push([attempt, resumed?.state ?? null]);
      return { kind: 'waiting', until: now() + 40_000, state: { looks: seen.length } };
    });
    const service = await openFlowService({ own: [own] });
    const runId = await started(service, { own: stepOf('Own', { timeoutSeconds: 100 }) });
    for (const dueAt of [40_000, 80_000, 100_000]) {
      for (let step = await waiting(service, runId, 'own'); step.dueAt !== START + dueAt; ) {
        step = await waiting(service, runId, 'own');
      }
      pass(service, START + dueAt - service.clock.now());
    }
    await service.ended(runId);
    expect(seen).toEqual([
      [1, null],
      [1, { looks: 1 }],
      [1, { looks: 2 }],
    ]);
    expect((await service.steps(runId)).own).toMatchObject({
      status: 'Failed',
      error: { code: 'timeout' },
      attemptCount: 1,
    });
  });

  it.each([
    [{ kind: 'waiting' }],
    [{ kind: 'waiting', until: Number.NaN }],
    [{ kind: 'waiting', until: 1, state: () => {} }],
  ])('for nothing that can come fails: %o', async (result) => {
    const own = ownHandler('Own', () => result as never);
    const service = await openFlowService({ own: [own] });
    const runId = await started(service, { own: stepOf('Own') });
    await service.ended(runId);
    expect((await service.steps(runId)).own?.error?.code).toBe('handler_error');
  });
});
