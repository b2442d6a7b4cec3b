import { randomBytes } from 'node:crypto';
import {
  type Context,
  context,
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

/** The standard variables that are not left to the SDK. */
interface TracingSettings {
  readonly hasExporter: boolean;
  /** `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`; unknown ones sample all, as the SDK would. */
  readonly sampler?: string | undefined;
  readonly samplerArgument?: string | undefined;
  /** `OTEL_TRACES_EXPORTER`; `otlp` by default. */
  readonly exporter?: string | undefined;
  /** `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`, else `OTEL_EXPORTER_OTLP_PROTOCOL`; unknown ones are protobuf, as for the SDK. */
  readonly protocol?: string | undefined;
}

/** Stops the SDK after sending what is buffered, or after a time. */
type StopTracing = () => Promise<void>;

/** A collector that is away or silent delays no stop for longer. */
const STOP_MS = 3000;

/**
 * Starts the OpenTelemetry SDK where an exporter endpoint is configured by the standard variables, else nothing: the
 * API alone costs next to nothing. The SDK is loaded only then, because loading it costs a start 300 ms and 30 MB.
 */
export async function startTracing(settings: TracingSettings, logger: Logger): Promise<StopTracing> {
  if (!settings.hasExporter) return async () => {};
  const { NodeSDK, tracing: kinds } = await import('@opentelemetry/sdk-node');
  const sampler = ownSampler(rootSampler(settings, kinds));
  const exporter = await otlpExporter(settings);
  const traceExporter = exporter && tellingExporter(exporter, logger);
  const sdk = new NodeSDK({ serviceName: 'sluice', sampler, ...(traceExporter && { traceExporter }) });
  sdk.start();
  return () => stopWithin(STOP_MS, sdk, logger);
}

/** Whoever stops waits no longer than that. */
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

/** The one that the standard variables name; undefined where that is none of OTLP, which the SDK makes itself. */
async function otlpExporter({
  exporter = '',
  protocol = '',
}: TracingSettings): Promise<tracing.SpanExporter | undefined> {
  if (exporter.trim() !== '' && exporter.trim() !== 'otlp') return undefined;
  if (protocol === 'grpc') return new (await import('@opentelemetry/exporter-trace-otlp-grpc')).OTLPTraceExporter();
  if (protocol === 'http/json')
    return new (await import('@opentelemetry/exporter-trace-otlp-http')).OTLPTraceExporter();
  return new (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter();
}

/** Says once that the collector is away, and once that it is back: the SDK tells nobody, and drops the traces. */
export function tellingExporter(inner: tracing.SpanExporter, logger: Logger): tracing.SpanExporter {
  let isAway = false;
  let lost = 0;
  return {
    export(spans, done) {
      inner.export(spans, (result) => {
        // 0 is success.
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
 * Decides once for each trace of ours, by `root`, and follows that decision to its last step. What a sender decided does
 * not count: its flag would let strangers fill the collector, or keep their deliveries out of it. Nor does its trace id,
 * which a sampler by ratio goes by and a stranger may choose.
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

// A stranger's values in them would be attached to each of our spans; other headers carry the trace.
const DROPPED_HEADERS: ReadonlySet<string> = new Set(['tracestate', 'baggage']);
const TRACE_HEADERS: TextMapGetter<Readonly<Record<string, unknown>>> = {
  keys: (headers) => Object.keys(headers).filter((name) => !DROPPED_HEADERS.has(name)),
  get(headers, name) {
    const value = DROPPED_HEADERS.has(name.toLowerCase()) ? undefined : headers[name.toLowerCase()];
    return typeof value === 'string' ? value : undefined;
  },
};

/** Starts the server span of a delivery, as a part of the sender's trace where its headers name one. */
export function startReceiveSpan(headers: Readonly<Record<string, unknown>>): Span {
  const sender = propagation.extract(context.active(), headers, TRACE_HEADERS);
  return tracer.startSpan('flow.webhook.receive', { kind: SpanKind.SERVER }, sender);
}

/** Runs `work` in a span that is a child of `parent`, a `traceparent` text; records what it throws and ends the span. */
export async function inSpan<T>(
  span: {
    name: 'flow.trigger' | 'flow.step';
    parent: string | null;
    attributes: Record<string, string | number>;
  },
  work: (span: Span) => Promise<T>,
): Promise<T> {
  const started = tracer.startSpan(span.name, { attributes: span.attributes }, contextOf(span.parent));
  try {
    return await work(started);
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

/** The W3C `traceparent` of a span, to be kept with a run; null without an SDK. */
export function traceparentOf(span: Span): string | null {
  if (!isSpanContextValid(span.spanContext())) return null;
  const carrier: Record<string, string> = {};
  propagation.inject(trace.setSpan(context.active(), span), carrier);
  return carrier.traceparent ?? null;
}

/** A `traceparent` that was kept with a run is our own span: its steps follow what was decided about it. */
function contextOf(traceparent: string | null): Context {
  if (traceparent === null) return context.active();
  const parent = propagation.extract(context.active(), { traceparent });
  const own = trace.getSpanContext(parent);
  return own === undefined ? parent : trace.setSpanContext(parent, { ...own, isRemote: false });
}
