import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { githubManifest, startService } from './service.ts';
import { useService } from './used-service.ts';

const { workspace, service } = useService(async ({ writeManifest }) => {
  await writeManifest('push.json', githubManifest());
});

/** Sends a byte of `text` every 250 ms until the other side closes the connection. */
async function trickle(head: string, text: string): Promise<void> {
  const { hostname, port } = new URL(service.url);
  const socket: Socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  socket.on('error', () => {});
  socket.resume();
  socket.write(head);
  let sent = 0;
  const timer = setInterval(() => socket.write(text[sent++ % text.length] ?? ''), 250);
  await once(socket, 'close');
  clearInterval(timer);
}

it('hangs up on headers and on bodies that trickle in, so that they cannot hold sockets', async () => {
  const head = 'POST /flows/api/webhook/push HTTP/1.1\r\nhost: localhost\r\n';
  await Promise.all([trickle(head, 'x-a: b\r\n'), trickle(`${head}content-length: 100000\r\n\r\n`, 'a')]);
  const response = await fetch(`${service.url}/health/live`);
  expect(response.status).toBe(200);
});

/** Sends the text and then nothing; returns the answer once the other side closed the connection. */
async function silent(text: string): Promise<string> {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  let received = '';
  socket
    .on('error', () => {})
    .on('data', (chunk) => {
      received += chunk;
    });
  const closed = once(socket, 'close');
  socket.write(text);
  await closed;
  return received;
}

it('hangs up on sockets that send nothing more, wherever they stop', async () => {
  const head = 'POST /flows/api/webhook/push HTTP/1.1\r\nhost: localhost\r\n';
  const [nothing, headers, announced, chunked] = await Promise.all([
    silent(''),
    silent(head),
    silent(`${head}content-length: 10\r\n\r\nabc`),
    silent(`${head}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`),
  ]);
  for (const answer of [nothing, headers]) expect(answer).toMatch(/^(HTTP\/1\.1 408 |$)/);
  for (const answer of [announced, chunked]) expect(answer).toMatch(/^HTTP\/1\.1 408 [\s\S]*stopped arriving/);
});

it('does not wait at a stop for requests that never arrive whole, and ends with 0', async () => {
  const own = await startService(workspace, { SLUICE_DATABASE_URL: 'sqlite:other.db' });
  const { hostname, port } = new URL(own.url);
  const head = 'POST /flows/api/webhook/push HTTP/1.1\r\nhost: localhost\r\n';
  const closed = [head, `${head}content-length: 10\r\n\r\nabc`].map(async (text) => {
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {}).resume();
    socket.write(text);
    await once(socket, 'close');
  });
  await fetch(`${own.url}/health/live`);
  expect(await own.stop('SIGTERM')).toEqual({ code: 0, signal: null });
  await Promise.all(closed);
});
