import { SpanStatusCode } from '@opentelemetry/api';
import { expect, it } from 'vitest';
import { keepSpans } from '../spans.ts';
import { openStarted, ownHandler, stepOf } from './fixture.ts';
import { graphOf } from './graphs.ts';

const spans = keepSpans();

const fails = ownHandler('Fails', () => ({ kind: 'failed', code: 'no_luck', message: 'no luck', retryable: false }));

it('one trace leads from what started a run to its last step', async () => {
  const service = await openStarted(
    { own: [fails] },
    { ...graphOf({ a: [] }), b: stepOf('Fails', { runAfter: { a: { statuses: ['Succeeded'] } } }) },
  );
  const runId = await service.trigger();
  await service.ended(runId);
  await service.runtime.stop(0);

  const [trigger, a, b] = spans();
  expect([trigger?.name, a?.name, b?.name]).toEqual(['flow.trigger', 'flow.step', 'flow.step']);
  for (const step of [a, b]) {
    expect(step?.spanContext().traceId).toBe(trigger?.spanContext().traceId);
    expect(step?.parentSpanContext?.spanId).toBe(trigger?.spanContext().spanId);
    expect(step?.attributes).toMatchObject({ 'flow.run.id': runId });
  }
  expect(a?.status.code).toBe(SpanStatusCode.UNSET);
  expect(b?.status).toEqual({ code: SpanStatusCode.ERROR, message: 'no_luck' });
});
