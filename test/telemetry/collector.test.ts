import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import pino from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { stopWithin, tellingExporter } from '../../src/telemetry/tracing.ts';

function log() {
  const lines: Record<string, unknown>[] = [];
  return { lines, logger: pino({ base: null, timestamp: false }, { write: (line) => lines.push(JSON.parse(line)) }) };
}

it('a collector that is away is told once, and once that it is back, with what was lost', async () => {
  let status = 400;
  const collector = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(status).end());
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void collector.close());
  const url = `http://127.0.0.1:${(collector.address() as AddressInfo).port}/v1/traces`;
  const { lines, logger } = log();
  const exporter = tellingExporter(new OTLPTraceExporter({ url }), logger);
  const send = () => new Promise<number>((resolve) => exporter.export([], ({ code }) => resolve(code)));

  expect(await send()).toBe(1);
  expect(await send()).toBe(1);
  expect(lines).toMatchObject([{ level: 40, msg: 'traces cannot be sent, and are lost until they can' }]);
  status = 200;
  expect(await send()).toBe(0);
  expect(await send()).toBe(0);
  expect(lines.slice(1)).toMatchObject([{ level: 30, msg: 'traces are sent again' }]);
  status = 400;
  await send();
  expect(lines).toHaveLength(3);
  await exporter.shutdown();
});

it('a stop waits for no collector that never answers, and says that traces may be missing', async () => {
  const { lines, logger } = log();
  await stopWithin(1, { shutdown: () => new Promise(() => {}) }, logger);
  expect(lines).toMatchObject([
    { level: 40, msg: 'traces could not be sent before the stop', err: { message: expect.stringContaining('1 ms') } },
  ]);
});

it('a stop whose traces are sent says nothing, and one whose collector is away ends too', async () => {
  const { lines, logger } = log();
  await stopWithin(60_000, { shutdown: async () => {} }, logger);
  expect(lines).toEqual([]);
  await stopWithin(60_000, { shutdown: () => Promise.reject(new Error('ECONNREFUSED')) }, logger);
  expect(lines).toHaveLength(1);
});
