import { type Context, ROOT_CONTEXT, SamplingDecision, type SpanContext, SpanKind, trace } from '@opentelemetry/api';
import { tracing } from '@opentelemetry/sdk-node';
import { describe, expect, it } from 'vitest';
import { inSpan, ownSampler, startReceiveSpan, traceparentOf } from '../../src/telemetry/tracing.ts';
import { keepSpans } from '../spans.ts';

const spans = keepSpans();

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN_ID = '00f067aa0ba902b7';
const traceparent = (flags: string) => `00-${TRACE_ID}-${SPAN_ID}-${flags}`;

function received(headers: Record<string, unknown>) {
  startReceiveSpan(headers).end();
  const span = spans().at(-1);
  if (span === undefined) throw new Error('nothing was recorded');
  return span;
}

describe('the span of a delivery', () => {
  it.each(['00', '01'])('is a part of the trace of the sender, and recorded whatever its flags say: %s', (flags) => {
    const span = received({ traceparent: traceparent(flags) });
    expect(span.spanContext()).toMatchObject({ traceId: TRACE_ID, traceFlags: 1 });
    expect(span.parentSpanContext?.spanId).toBe(SPAN_ID);
  });

  it.each([
    ['malformed', 'what=ever,,=;\u0000'],
    ['oversized', `a=${'x'.repeat(100_000)}`],
    ['of many members', Array.from({ length: 5000 }, (_, i) => `k${i}=v`).join(',')],
    ['well-formed', 'vendor=secret'],
  ])('takes neither a tracestate nor baggage along that is %s', (_what, value) => {
    const span = received({ traceparent: traceparent('01'), tracestate: value, baggage: value });
    expect(span.spanContext().traceState).toBeUndefined();
    expect(span.links).toEqual([]);
  });

  it.each([
    'nonsense',
    `00-${'0'.repeat(32)}-${SPAN_ID}-01`,
    `ff-${TRACE_ID}-${SPAN_ID}-01`,
    `${traceparent('01')}, ${traceparent('01')}`,
    `00-${TRACE_ID.toUpperCase()}-${SPAN_ID}-01`,
    '0'.repeat(100_000),
    ['00', '01'],
  ])('is the root of a trace of its own where traceparent is malformed: %j', (malformed) => {
    const span = received({ traceparent: malformed });
    expect(span.parentSpanContext).toBeUndefined();
    expect(span.links).toEqual([]);
  });
});

describe('the decision to sample', () => {
  const shouldSample = (root: tracing.Sampler, parent?: SpanContext) => {
    const context: Context = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
    return ownSampler(root).shouldSample(context, parent?.traceId ?? TRACE_ID, 'x', SpanKind.SERVER, {}, []).decision;
  };
  const on = new tracing.AlwaysOnSampler();
  const off = new tracing.AlwaysOffSampler();
  const { RECORD_AND_SAMPLED, NOT_RECORD } = SamplingDecision;
  const sent = { traceId: TRACE_ID, spanId: SPAN_ID };

  it.each([0, 1])('is ours, not that of a sender with the flag %i', (traceFlags) => {
    expect(shouldSample(on, { ...sent, traceFlags, isRemote: true })).toBe(RECORD_AND_SAMPLED);
    expect(shouldSample(off, { ...sent, traceFlags, isRemote: true })).toBe(NOT_RECORD);
  });

  it('holds to the last span of a trace', () => {
    expect(shouldSample(off, { ...sent, traceFlags: 1 })).toBe(RECORD_AND_SAMPLED);
    expect(shouldSample(on, { ...sent, traceFlags: 0 })).toBe(NOT_RECORD);
  });

  it('by ratio goes by no trace id that a sender chose', () => {
    const asked: string[] = [];
    const root: tracing.Sampler = {
      shouldSample(_parent, traceId) {
        asked.push(traceId);
        return { decision: NOT_RECORD };
      },
      toString: () => 'root',
    };
    shouldSample(root, { ...sent, traceFlags: 1, isRemote: true });
    shouldSample(root, { ...sent, traceFlags: 1, isRemote: true });
    shouldSample(root);
    expect(asked).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), expect.stringMatching(/^[0-9a-f]{32}$/), TRACE_ID]);
    expect(new Set(asked).size).toBe(3);
  });

  it('is kept with a run and followed by its steps', async () => {
    const span = startReceiveSpan({ traceparent: traceparent('00') });
    const kept = traceparentOf(span);
    span.end();
    expect(kept).toMatch(new RegExp(`^00-${TRACE_ID}-[0-9a-f]{16}-01$`));
    const before = spans().length;
    await inSpan({ name: 'flow.step', parent: kept, attributes: {} }, async () => {});
    await inSpan({ name: 'flow.step', parent: kept?.replace(/01$/, '00') ?? null, attributes: {} }, async () => {});
    expect(spans().length).toBe(before + 1);
  });
});
