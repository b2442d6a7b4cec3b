import { context, propagation, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { describe, expect, it } from 'vitest';
import { keepSpans } from '../spans.ts';
import { DONE, openStarted, ownHandler, stepOf } from './fixture.ts';
import { graphOf } from './graphs.ts';
import { serve } from './handlers/loopback-server.ts';

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

/** Runs a flow of one step and returns its spans. */
async function traceOf(step: ReturnType<typeof stepOf>, options: Parameters<typeof openStarted>[0]) {
  const service = await openStarted(options, { a: step });
  const runId = await service.trigger();
  await service.ended(runId);
  await service.runtime.stop(0);
  const own = spans().find(({ attributes }) => attributes['flow.run.id'] === runId);
  if (own === undefined) throw new Error('the step has no span');
  const { traceId, spanId } = own.spanContext();
  const sent = spans().filter(
    (span) => span.kind === SpanKind.CLIENT && span.parentSpanContext?.spanId === spanId && span !== own,
  );
  return { traceId, spanId, sent };
}

const loopback = { egressAllow: ['127.0.0.0/8'] };

describe('a request that goes out', () => {
  it('carries the traceparent of its own span, a child of the step', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    const step = stepOf('HttpRequest', { inputs: { url: `${origin}/orders?customer=7`, method: 'POST' } });
    const { traceId, sent } = await traceOf(step, loopback);

    const [span] = sent;
    expect(sent).toHaveLength(1);
    expect(received[0]?.headers.traceparent).toBe(`00-${traceId}-${span?.spanContext().spanId}-01`);
    expect(received[0]?.headers).not.toHaveProperty('baggage');
    expect(span?.name).toBe('POST');
    expect(span?.status.code).toBe(SpanStatusCode.UNSET);
    expect(span?.attributes).toEqual({
      'http.request.method': 'POST',
      'http.response.status_code': 200,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(origin).port),
      'url.full': `${origin}/orders`,
    });
  });

  it('keeps the traceparent that its author wrote', async () => {
    const { origin, received } = await serve((_request, response) => response.end());
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const headers = { Traceparent: traceparent };
    const { sent } = await traceOf(stepOf('HttpRequest', { inputs: { url: origin, headers } }), loopback);
    expect(received[0]?.headers.traceparent).toBe(traceparent);
    expect(sent).toHaveLength(1);
  });

  it('has a span for each redirect, of which only the host is told', async () => {
    const { origin, received } = await serve(({ url }, response) => {
      if (url === '/old') response.writeHead(302, { location: '/new/session-of-somebody' });
      response.end();
    });
    const { traceId, sent } = await traceOf(stepOf('HttpRequest', { inputs: { url: `${origin}/old` } }), loopback);
    expect(sent.map(({ attributes }) => [attributes['url.full'], attributes['http.request.resend_count']])).toEqual([
      [`${origin}/old`, undefined],
      [`${origin}/***`, 1],
    ]);
    expect(received.map(({ headers }) => headers.traceparent)).toEqual(
      sent.map((span) => `00-${traceId}-${span.spanContext().spanId}-01`),
    );
  });

  it.each([
    ['an answer that is not expected', 404, '404', SpanStatusCode.ERROR],
    ['no answer', undefined, 'UND_ERR_SOCKET', SpanStatusCode.ERROR],
  ])('says that it failed: %s', async (_what, status, errorType, code) => {
    const { origin } = await serve((request, response) => {
      if (status === undefined) request.socket.destroy();
      else response.writeHead(status).end();
    });
    const { sent } = await traceOf(stepOf('HttpRequest', { inputs: { url: origin } }), loopback);
    expect(sent[0]?.status.code).toBe(code);
    expect(sent[0]?.attributes['error.type']).toBe(errorType);
  });

  it('is no failure where the status is expected', async () => {
    const { origin } = await serve((_request, response) => response.writeHead(404).end());
    const inputs = { url: origin, expectedStatuses: [404] };
    const { sent } = await traceOf(stepOf('HttpRequest', { inputs }), loopback);
    expect(sent[0]?.status.code).toBe(SpanStatusCode.UNSET);
  });

  it.each([
    ['short', 'T1/B2'],
    ['long', 'services/T00000000/B00000000/XXXXXXXXXXXXXXXX'],
  ])('tells no path that is a secret, however its host is written: %s', async (_what, path) => {
    const { origin } = await serve((_request, response) => response.end());
    const secret = `HTTP://${origin.slice('http://'.length)}/${path}`;
    const step = stepOf('HttpRequest', { inputs: { url: 'env:HOOK' } });
    const { sent } = await traceOf(step, { ...loopback, readSecret: () => ({ value: secret }) });
    expect(sent[0]?.attributes).toMatchObject({ 'server.address': '127.0.0.1', 'url.full': `${origin}/***` });
  });

  it('of a handler of its own may continue the trace of its step', async () => {
    const carried: Record<string, string> = {};
    const own = ownHandler('Own', () => {
      propagation.inject(context.active(), carried);
      return DONE;
    });
    const { traceId, spanId } = await traceOf(stepOf('Own'), { own: [own] });
    expect(carried).toEqual({ traceparent: `00-${traceId}-${spanId}-01` });
  });
});
