import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { ORDERS_ID, orderDelivery, startDashboard, UNKNOWN_ID } from './fixture.ts';

/** Reads a stream until it holds a text. */
async function readUntil(reader: ReadableStreamDefaultReader<Uint8Array>, isThere: (text: string) => boolean) {
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    text += Buffer.from(value ?? new Uint8Array()).toString();
    if (done || isThere(text)) return text;
  }
}

async function watch(query = '') {
  const dashboard = await startDashboard();
  await dashboard.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = dashboard.app.server.address() as AddressInfo;
  const stop = new AbortController();
  onTestFinished(async () => {
    stop.abort();
    await dashboard.close();
  });
  const url = `http://127.0.0.1:${port}/flows/api/events/stream${query}`;
  const response = await fetch(url, { signal: stop.signal });
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error('the answer has no body');
  await readUntil(reader, (text) => text.includes('\n\n'));
  return { dashboard, response, reader };
}

it('streams deliveries and runs as they happen', async () => {
  const { dashboard, response, reader } = await watch();
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  const { runId } = (await dashboard.app.inject(orderDelivery('{}'))).json();
  const text = await readUntil(reader, (all) => all.includes('delivery.received') && all.includes('run.started'));
  const events = text
    .split('\n\n')
    .filter(Boolean)
    .map((block) => block.split('\n'));
  expect(events.map(([name]) => name).sort()).toEqual(['event: delivery.received', 'event: run.started']);
  for (const [, data = ''] of events) expect(JSON.parse(data.slice('data: '.length)).runId).toBe(runId);
});

it('streams only the run that is named', async () => {
  const { dashboard, reader } = await watch(`?runId=${UNKNOWN_ID}`);
  await dashboard.app.inject(orderDelivery('{}'));
  await dashboard.app.close();
  expect(await readUntil(reader, () => false)).toBe('');
});

it('ends with the service, and does not hold up its stop', async () => {
  const { dashboard, reader } = await watch();
  await dashboard.app.inject({ method: 'POST', url: `/flows/api/flows/${ORDERS_ID}/trigger` });
  const rest = readUntil(reader, () => false);
  await dashboard.app.close();
  expect(await rest).toContain('event: run.started');
});
