import { SpanStatusCode } from '@opentelemetry/api';
import { NodeSDK, tracing } from '@opentelemetry/sdk-node';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { defineHandler } from '../../src/flows/handlers/handler.ts';
import { openHouse, stepOf } from './fixture.ts';
import { graphOf } from './graphs.ts';

const exporter = new tracing.InMemorySpanExporter();
const sdk = new NodeSDK({
  spanProcessors: [new tracing.SimpleSpanProcessor(exporter)],
  instrumentations: [],
  resourceDetectors: [],
});
beforeAll(() => sdk.start());
afterAll(() => sdk.shutdown());

const fails = defineHandler({
  type: 'Fails',
  inputs: z.unknown(),
  run: () => ({ kind: 'failed', code: 'no_luck', message: 'no luck', retryable: false }),
});

it('one trace leads from what started a run to its last step', async () => {
  const house = await openHouse({ own: [fails] });
  await house.deploy({ ...graphOf({ a: [] }), b: stepOf('Fails', { runAfter: { a: { statuses: ['Succeeded'] } } }) });
  await house.runtime.start();
  const runId = await house.trigger();
  await house.ended(runId);
  await house.runtime.stop(0);

  const [trigger, a, b] = exporter.getFinishedSpans();
  expect([trigger?.name, a?.name, b?.name]).toEqual(['flow.trigger', 'flow.step', 'flow.step']);
  for (const step of [a, b]) {
    expect(step?.spanContext().traceId).toBe(trigger?.spanContext().traceId);
    expect(step?.parentSpanContext?.spanId).toBe(trigger?.spanContext().spanId);
    expect(step?.attributes).toMatchObject({ 'flow.run.id': runId });
  }
  expect(a?.status.code).toBe(SpanStatusCode.UNSET);
  expect(b?.status).toEqual({ code: SpanStatusCode.ERROR, message: 'no_luck' });
});
