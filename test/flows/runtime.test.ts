import { describe, expect, it } from 'vitest';
import { runsStore } from '../../src/features/runs/store.ts';
import { cel, openFlowService, openStarted, ownHandler, stepOf } from './fixture.ts';
import { graphOf } from './graphs.ts';
import { serve } from './handlers/loopback-server.ts';

const fails = ownHandler('Fails', () => ({ kind: 'failed', code: 'no_luck', message: 'no luck', retryable: false }));

describe('a run', () => {
  it('goes through its graph to the end', async () => {
    const service = await openStarted({}, graphOf({ a: [], b: ['a'], c: ['a'], d: ['b', 'c'] }));
    const runId = await service.trigger();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded', revision: 1, flowName: 'Orders' });
    const steps = Object.values(await service.steps(runId));
    expect(steps.map(({ stepKey, status, attemptCount }) => ({ stepKey, status, attemptCount }))).toEqual(
      ['a', 'b', 'c', 'd'].map((stepKey) => ({ stepKey, status: 'Succeeded', attemptCount: 1 })),
    );
  });

  it('hands a step what the steps before it left and what started the run', async () => {
    const service = await openStarted(
      {},
      {
        greet: stepOf('LogMessage', { inputs: { message: `hello ${cel('trigger.body.name')}` } }),
        relay: stepOf('LogMessage', {
          inputs: { message: { said: cel('steps.greet.output'), of: cel('trigger.headers["x-a"]') } },
          runAfter: { greet: { statuses: ['Succeeded'] } },
        }),
      },
    );
    const runId = await service.trigger({ name: 'Ada' });
    await service.ended(runId);
    expect((await service.steps(runId)).relay).toMatchObject({ output: { said: 'hello Ada', of: 'b' } });
  });

  it('fails with its step, and skips what was to come after it', async () => {
    const service = await openStarted({ own: [fails] }, { ...graphOf({ b: ['a'] }), a: stepOf('Fails') });
    const runId = await service.trigger();
    expect(await service.ended(runId)).toMatchObject({ status: 'Failed' });
    expect(await service.steps(runId)).toMatchObject({
      a: { status: 'Failed', error: { code: 'no_luck', message: 'no luck', retryable: false } },
      b: { status: 'Skipped', skipReason: '"a" ended Failed; this step runs after Succeeded' },
    });
  });

  it('starts the flow that its manifest names for a failure, which reads run, step and error', async () => {
    const service = await openFlowService({ own: [fails] });
    const alarm = '0b7c9d10-0000-4000-8000-000000000002';
    const value = cel('trigger.body.run.flowName + "/" + trigger.body.step.key + ": " + trigger.body.error.message');
    await service.deploy({ tell: stepOf('Transform', { inputs: { value } }) }, { id: alarm, name: 'Alarm' });
    await service.deploy({ a: stepOf('Fails') }, { onFailure: alarm });
    await service.runtime.start();
    const runId = await service.trigger();
    await service.ended(runId);
    const [started] = (await service.store.of(runsStore).findLineage(runId))?.derived ?? [];
    expect(await service.ended(started?.id ?? '')).toMatchObject({ flowName: 'Alarm', status: 'Succeeded' });
    expect(await service.steps(started?.id ?? '')).toMatchObject({ tell: { output: 'Orders/a: no luck' } });
    expect(service.log.events('RunStarted')).toMatchObject([{ runId }, { runId: started?.id, triggerType: 'failure' }]);
  });

  it('says so where that flow starts no runs', async () => {
    const service = await openFlowService({ own: [fails] });
    const alarm = '0b7c9d10-0000-4000-8000-000000000002';
    await service.deploy({}, { id: alarm });
    await service.deploy({ a: stepOf('Fails') }, { onFailure: alarm });
    await service.catalog.setEnabled(alarm, false);
    await service.runtime.start();
    const runId = await service.trigger();
    await service.ended(runId);
    await service.runtime.stop(0);
    expect(service.log.events('FailureFlowNotStarted')).toMatchObject([
      { eventId: 1011, runId, failureFlowId: alarm, why: 'disabled' },
    ]);
  });

  it('emits its events and counts', async () => {
    const service = await openStarted(
      { own: [fails] },
      {
        ...graphOf({ b: ['a'] }),
        a: stepOf('NoOp'),
        c: stepOf('Fails'),
        ...graphOf({ d: ['c'], b: ['a'] }),
      },
    );
    const runId = await service.trigger();
    await service.ended(runId);
    await service.runtime.stop(0);
    const { lines, events } = service.log;
    expect(events('RunStarted')).toMatchObject([{ eventId: 1000, runId, triggerType: 'manual', revision: 1 }]);
    expect(events('DispatchEnqueued').map(({ eventId, stepKey }) => [eventId, stepKey])).toEqual(
      expect.arrayContaining([
        [3000, 'a'],
        [3000, 'b'],
        [3000, 'c'],
      ]),
    );
    expect(events('StepStarted')).toHaveLength(3);
    expect(events('StepCompleted')).toMatchObject([
      { eventId: 2001, stepKey: 'a' },
      { eventId: 2001, stepKey: 'b' },
    ]);
    expect(events('StepFailed')).toMatchObject([{ eventId: 2002, stepKey: 'c', error: { code: 'no_luck' } }]);
    expect(events('StepSkipped')).toMatchObject([{ eventId: 2003, stepKey: 'd' }]);
    expect(events('RunCompleted')).toMatchObject([{ eventId: 1001, runId, status: 'Failed' }]);
    expect(lines.filter(({ eventId }) => eventId === 1010)).toEqual([]);

    const text = await service.metrics.registry.metrics();
    expect(text).toMatch(/sluice_runs_started_total\{[^}]*trigger="manual"\} 1/);
    expect(text).toMatch(/sluice_runs_completed_total\{[^}]*status="Failed"\} 1/);
    expect(text).toContain('sluice_steps_completed_total{type="NoOp",status="Succeeded"} 2');
    expect(text).toContain('sluice_steps_completed_total{type="Fails",status="Failed"} 1');
    expect(text).toContain('sluice_steps_in_flight 0');
  });

  it('of a flow without steps has ended at once', async () => {
    const service = await openStarted({}, {});
    const runId = await service.trigger();
    expect(await service.store.findRun(runId)).toMatchObject({ status: 'Succeeded', completedAt: service.clock.now() });
    expect(service.log.events('RunCompleted')).toMatchObject([{ runId, status: 'Succeeded' }]);
  });
});

describe('an HttpRequest', () => {
  const TOKEN = 'Bearer t0p-s3cret-token';

  it.each([
    [200, 'Succeeded'],
    [500, 'Failed'],
  ])('that is answered %i records no secret, though the other side tells it back', async (status, expected) => {
    const { origin, received } = await serve((request, response) => {
      response.setHeader('x-echo', request.headers.authorization ?? '');
      response.writeHead(status).end(JSON.stringify(request.headers));
    });
    const service = await openFlowService({
      egressAllow: ['127.0.0.0/8'],
      readSecret: (reference) => (reference === 'env:TOKEN' ? { value: TOKEN } : { error: 'unknown' }),
    });
    const inputs = { url: origin, method: 'POST', forwardBody: true, headers: { Authorization: 'env:TOKEN' } };
    await service.deploy({ call: stepOf('HttpRequest', { inputs }) });
    await service.runtime.start();
    const runId = await service.trigger({ a: 1 });
    expect(await service.ended(runId)).toMatchObject({ status: expected });
    const { call } = await service.steps(runId);
    expect(received[0]?.headers.authorization).toBe(TOKEN);
    expect(received[0]?.headers['idempotency-key']).toBe(`${runId}:call`);
    expect(received[0]?.body.toString()).toBe('{"a":1}');
    expect(call).toMatchObject({
      input: { url: origin, headers: { Authorization: '***' } },
      output: { status, headers: { 'x-echo': '***' } },
    });
    expect(JSON.stringify([call, service.log.lines])).not.toContain('t0p-s3cret');
  });
});

describe('a deploy while a run is in flight', () => {
  const gated = () => {
    let open: () => void = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const gate = ownHandler('Gate', async () => {
      await opened;
      return { kind: 'succeeded', output: null };
    });
    return { gate, open: () => open() };
  };
  const behind = (key: string) => ({ runAfter: { [key]: { statuses: ['Succeeded'] as const } } });

  it('changes its inputs and neither its graph nor its types', async () => {
    const { gate, open } = gated();
    const service = await openStarted(
      { own: [gate] },
      {
        a: stepOf('Gate'),
        b: stepOf('LogMessage', { inputs: { message: 'old' }, ...behind('a') }),
      },
    );
    const runId = await service.trigger();
    await service.deploy({
      a: stepOf('Gate'),
      b: stepOf('NoOp', { inputs: { message: 'new' }, ...behind('between') }),
      between: stepOf('NoOp', behind('a')),
    });
    open();
    expect(await service.ended(runId)).toMatchObject({ status: 'Succeeded', revision: 1 });
    const steps = await service.steps(runId);
    expect(Object.keys(steps)).toEqual(['a', 'b']);
    expect(steps.b).toMatchObject({ stepType: 'LogMessage', output: 'new' });
  });

  it('leaves a step that it removed its own inputs', async () => {
    const { gate, open } = gated();
    const service = await openStarted(
      { own: [gate] },
      {
        a: stepOf('Gate'),
        b: stepOf('LogMessage', { inputs: { message: 'old' }, ...behind('a') }),
      },
    );
    const runId = await service.trigger();
    await service.deploy({ a: stepOf('Gate') });
    open();
    await service.ended(runId);
    expect((await service.steps(runId)).b).toMatchObject({ status: 'Succeeded', output: 'old' });
  });
});
