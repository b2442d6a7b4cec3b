import { randomBytes } from 'node:crypto';
import {
  type Attributes,
  type Context,
  context,
  INVALID_SPAN_CONTEXT,
  isSpanContextValid,
  propagation,
  ROOT_CONTEXT,
  SamplingDecision,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapGetter,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import type { tracing } from '@opentelemetry/sdk-node';
import type { Logger } from 'pino';

const tracer = trace.getTracer('sluice');

/** The standard variables that the SDK does not read itself. */
interface TracingSettings {
  readonly hasExporter: boolean;
  /** `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`; unknown ones sample all, as in the SDK. */
  readonly sampler?: string | undefined;
  readonly samplerArgument?: string | undefined;
  /** `OTEL_TRACES_EXPORTER`; `otlp` by default. */
  readonly exporter?: string | undefined;
  /** `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`, or `OTEL_EXPORTER_OTLP_PROTOCOL`; unknown ones mean protobuf, as for it. */
  readonly protocol?: string | undefined;
}

/** Stops the SDK after sending the buffered traces, or after a time. */
type StopTracing = () => Promise<void>;

/** The longest delay of a stop by a collector that is away or silent. */
const STOP_MS = 3000;

/**
 * Starts the OpenTelemetry SDK if the standard variables name an exporter endpoint: the API alone costs almost nothing.
 * Only then the SDK is loaded, because that costs a start 300 ms and 30 MB.
 */
export async function startTracing(settings: TracingSettings, logger: Logger): Promise<StopTracing> {
  if (!settings.hasExporter) return async () => {};
  const { NodeSDK, tracing: kinds } = await import('@opentelemetry/sdk-node');
  const sampler = ownSampler(rootSampler(settings, kinds));
  const exporter = await otlpExporter(settings);
  const traceExporter = exporter && tellingExporter(exporter, logger);
  // Metrics are scraped, and the log is written: without these lists, the SDK would send its own.
  const sent = { ...(traceExporter && { traceExporter }), metricReaders: [], logRecordProcessors: [] };
  const sdk = new NodeSDK({ serviceName: 'sluice', sampler, ...sent });
  sdk.start();
  return () => stopWithin(STOP_MS, sdk, logger);
}

/** Limits the wait of a stop. */
export async function stopWithin(ms: number, sdk: { shutdown(): Promise<void> }, logger: Logger): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const isLate = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`the collector did not answer within ${ms} ms`)), ms);
  });
  // A collector that is down must not turn a clean stop into a failed one.
  await Promise.race([sdk.shutdown(), isLate]).catch((error: unknown) =>
    logger.warn({ err: error }, 'traces could not be sent before the stop'),
  );
  clearTimeout(timer);
}

/** The exporter that the standard variables name; undefined if it is not OTLP, which the SDK makes itself. */
async function otlpExporter({ exporter = '', protocol = '' }: TracingSettings) {
  if (exporter.trim() !== '' && exporter.trim() !== 'otlp') return undefined;
  if (protocol === 'grpc') return new (await import('@opentelemetry/exporter-trace-otlp-grpc')).OTLPTraceExporter();
  if (protocol === 'http/json')
    return new (await import('@opentelemetry/exporter-trace-otlp-http')).OTLPTraceExporter();
  return new (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter();
}

/** Logs once that the collector is away, and once that it is back: the SDK drops the traces silently. */
export function tellingExporter(inner: tracing.SpanExporter, logger: Logger): tracing.SpanExporter {
  let isAway = false;
  let lost = 0;
  return {
    export(spans, done) {
      inner.export(spans, (result) => {
        // 0 means success.
        if (result.code !== 0) {
          if (!isAway) logger.warn({ err: result.error }, 'traces cannot be sent, and are lost until they can');
          isAway = true;
          lost += spans.length;
        } else if (isAway) {
          logger.info({ lost }, 'traces are sent again');
          isAway = false;
          lost = 0;
        }
        done(result);
      });
    },
    shutdown: () => inner.shutdown(),
    forceFlush: () => inner.forceFlush?.() ?? Promise.resolve(),
  };
}

function rootSampler({ sampler = '', samplerArgument = '' }: TracingSettings, kinds: typeof tracing): tracing.Sampler {
  if (sampler.endsWith('always_off')) return new kinds.AlwaysOffSampler();
  if (!sampler.endsWith('traceidratio')) return new kinds.AlwaysOnSampler();
  const ratio = samplerArgument.trim() === '' ? 1 : Number(samplerArgument);
  return new kinds.TraceIdRatioBasedSampler(ratio >= 0 && ratio <= 1 ? ratio : 1);
}

/**
 * Decides once for each of our traces, with `root`, and keeps that decision to its last step. A sender's decision does
 * not count: its flag would let strangers fill the collector, or keep their deliveries out of it. Nor does its trace
 * id, from which a ratio sampler decides and which a stranger can choose.
 */
export function ownSampler(root: tracing.Sampler): tracing.Sampler {
  return {
    shouldSample(parent, traceId, ...span) {
      const own = trace.getSpanContext(parent);
      if (own === undefined) return root.shouldSample(ROOT_CONTEXT, traceId, ...span);
      if (own.isRemote === true) return root.shouldSample(ROOT_CONTEXT, randomBytes(16).toString('hex'), ...span);
      const isSampled = (own.traceFlags & TraceFlags.SAMPLED) !== 0;
      return { decision: isSampled ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.NOT_RECORD };
    },
    toString: () => `OwnSampler{${root.toString()}}`,
  };
}

// Strangers' values would be attached to each of our spans; other headers carry the trace.
const DROPPED_HEADERS: ReadonlySet<string> = new Set(['tracestate', 'baggage']);
const TRACE_HEADERS: TextMapGetter<Readonly<Record<string, unknown>>> = {
  keys: (headers) => Object.keys(headers).filter((name) => !DROPPED_HEADERS.has(name)),
  get(headers, name) {
    const value = DROPPED_HEADERS.has(name.toLowerCase()) ? undefined : headers[name.toLowerCase()];
    return typeof value === 'string' ? value : undefined;
  },
};

/** Starts the server span of a delivery, as a part of the sender's trace if its headers name one. */
export function startReceiveSpan(headers: Readonly<Record<string, unknown>>): Span {
  const sender = propagation.extract(context.active(), headers, TRACE_HEADERS);
  return tracer.startSpan('flow.webhook.receive', { kind: SpanKind.SERVER }, sender);
}

/** Records the answer to a request in OpenTelemetry's terms. A 4xx is the sender's fault, not a server error. */
export function tagAnswer(span: Span, status: number, isError: boolean): void {
  span.setAttribute('http.response.status_code', status);
  if (!isError) return;
  span.setAttribute('error.type', String(status));
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** An outgoing request, as its span shows it. */
interface SentRequest<Answer> {
  readonly method: string;
  /** Called if the span is recorded; must not contain secrets. */
  readonly attributes: () => Attributes;
  readonly isError: (answer: Answer) => boolean;
  /** The kind of failure, without secrets. */
  readonly errorType: (error: unknown) => string;
}

/**
 * Sends a request in its own span, a child of the active one. `send` gets the headers that continue the trace: those
 * that `OTEL_PROPAGATORS` names, and none without an SDK.
 */
export async function inClientSpan<Answer extends { readonly status: number }>(
  { method, attributes, isError, errorType }: SentRequest<Answer>,
  send: (traceHeaders: Readonly<Record<string, string>>) => Promise<Answer>,
): Promise<Answer> {
  const span = tracer.startSpan(method, { kind: SpanKind.CLIENT });
  if (span.isRecording()) span.setAttributes({ 'http.request.method': method, ...attributes() });
  const traceHeaders: Record<string, string> = {};
  propagation.inject(trace.setSpan(context.active(), span), traceHeaders);
  try {
    const answer = await send(traceHeaders);
    tagAnswer(span, answer.status, isError(answer));
    return answer;
  } catch (error) {
    span.setAttribute('error.type', errorType(error));
    span.setStatus({ code: SpanStatusCode.ERROR });
    throw error;
  } finally {
    span.end();
  }
}

/**
 * Runs `work` in a span that is a child of `parent`, a `traceparent` text; records errors and ends the span. A step's
 * span is active meanwhile, so that everything that its handler sends or traces belongs to it.
 */
export function inSpan<T>(own: OwnSpan, work: (span: Span) => Promise<T>): Promise<T> {
  const parent = contextOf(own.parent);
  const span = tracer.startSpan(own.name, { attributes: own.attributes }, parent);
  if (!hasNoSdk(span)) return recorded(span, { ...own, parent }, work);
  try {
    return work(span);
  } catch (error) {
    return Promise.reject(error);
  }
}

interface OwnSpan {
  readonly name: 'flow.trigger' | 'flow.step';
  readonly parent: string | null;
  readonly attributes: Record<string, string | number>;
}

async function recorded<T>(
  started: Span,
  { name, parent }: Pick<OwnSpan, 'name'> & { readonly parent: Context },
  work: (span: Span) => Promise<T>,
): Promise<T> {
  try {
    // Work that an acceptance starts outlives it, and is not part of it.
    if (name !== 'flow.step') return await work(started);
    return await context.with(trace.setSpan(parent, started), work, undefined, started);
  } catch (error) {
    started.setStatus({
      code: SpanStatusCode.ERROR,
      message: error instanceof Error ? error.name : 'error',
    });
    throw error;
  } finally {
    started.end();
  }
}

/** The W3C `traceparent` of a span, for storing with a run, whatever `OTEL_PROPAGATORS` says; null without an SDK. */
export function traceparentOf(span: Span): string | null {
  const own = span.spanContext();
  if (hasNoSdk(span) || !isSpanContextValid(own)) return null;
  return `00-${own.traceId}-${own.spanId}-${own.traceFlags.toString(16).padStart(2, '0')}`;
}

/** Whether it is the API's own span, the same one for every call without an SDK. */
function hasNoSdk(span: Span): boolean {
  return span.spanContext() === INVALID_SPAN_CONTEXT;
}

/** A `traceparent` stored with a run is our own span: its steps follow the decision about it. */
function contextOf(traceparent: string | null): Context {
  if (traceparent === null) return ROOT_CONTEXT;
  const [, traceId = '', spanId = '', flags = ''] =
    /^00-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/.exec(traceparent) ?? [];
  const own = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) };
  // Not the active span: the code that found due work did not cause it.
  return isSpanContextValid(own) ? trace.setSpanContext(ROOT_CONTEXT, own) : ROOT_CONTEXT;
}
