import { type Context, context, propagation, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Logger } from 'pino';

const tracer = trace.getTracer('sluice');

/** Stops the SDK after sending what is buffered. */
export type StopTracing = () => Promise<void>;

/**
 * Starts the OpenTelemetry SDK where an exporter endpoint is configured by the standard variables, else nothing: the
 * API alone costs next to nothing. The SDK is loaded only then, because loading it costs a start 300 ms and 30 MB.
 */
export async function startTracing(hasExporter: boolean, logger: Logger): Promise<StopTracing> {
  if (!hasExporter) return async () => {};
  const { NodeSDK } = await import('@opentelemetry/sdk-node');
  const sdk = new NodeSDK({ serviceName: 'sluice' });
  sdk.start();
  return () =>
    // A collector that is down must not turn a clean stop into a failed one.
    sdk.shutdown().catch((error: unknown) => logger.warn({ err: error }, 'traces could not be sent before the stop'));
}

/** Starts the server span of a delivery, in the caller's trace where its headers name one. */
export function startReceiveSpan(headers: Readonly<Record<string, unknown>>): Span {
  const parent = propagation.extract(context.active(), headers);
  return tracer.startSpan('flow.webhook.receive', { kind: SpanKind.SERVER }, parent);
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
  const carrier: Record<string, string> = {};
  propagation.inject(trace.setSpan(context.active(), span), carrier);
  return carrier.traceparent ?? null;
}

function contextOf(traceparent: string | null): Context {
  return traceparent === null ? context.active() : propagation.extract(context.active(), { traceparent });
}
