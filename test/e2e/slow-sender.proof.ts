import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createWorkspace, githubManifest, type Service, startService, type Workspace } from './service.ts';

let workspace: Workspace;
let service: Service;
beforeAll(async () => {
  workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  service = await startService(workspace);
});
afterAll(async () => {
  await service.stop('SIGTERM');
  await workspace.remove();
});

/** Sends a byte of `text` every 250 ms until the other side hangs up. */
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
