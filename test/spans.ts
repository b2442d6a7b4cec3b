import { NodeSDK, tracing } from '@opentelemetry/sdk-node';
import { afterAll, beforeAll } from 'vitest';
import { ownSampler } from '../src/telemetry/tracing.ts';

let kept: tracing.ReadableSpan[] | undefined;
let sdk: NodeSDK | undefined;

/**
 * Keeps the spans that end while the tests of this file run. One SDK serves all files of a process, because tracers of
 * the tested code keep using the first one.
 */
export function keepSpans(): () => readonly tracing.ReadableSpan[] {
  beforeAll(() => {
    kept = [];
    if (sdk !== undefined) return;
    const nothing = async () => {};
    const processor = { onStart() {}, onEnd: (span: tracing.ReadableSpan) => kept?.push(span) };
    sdk = new NodeSDK({
      sampler: ownSampler(new tracing.AlwaysOnSampler()),
      spanProcessors: [{ ...processor, forceFlush: nothing, shutdown: nothing }],
      instrumentations: [],
      resourceDetectors: [],
    });
    sdk.start();
  });
  afterAll(() => {
    kept = undefined;
  });
  return () => kept ?? [];
}
