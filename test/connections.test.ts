import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { watchConnections } from '../src/connections.ts';

const servers: Server[] = [];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) await new Promise((done) => server.close(done));
});

async function listen(limits: { isShared: boolean; max: number }) {
  const server = createServer((_request, response) => response.end('here'));
  const refused: string[] = [];
  watchConnections(server, {
    isShared: () => limits.isShared,
    onRefused: (address) => refused.push(address),
    maxSocketsOfOneAddress: limits.max,
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { port, refused };
}

/** Opens a socket and returns whether it is served; if so, the socket stays open. */
async function isServed(port: number): Promise<{ isServed: boolean; socket: Socket }> {
  const socket = connect(port, '127.0.0.1');
  sockets.push(socket);
  const served = new Promise<boolean>((done) => {
    socket.on('error', () => {});
    socket.once('data', () => done(true));
    socket.once('close', () => done(false));
  });
  socket.write('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n');
  return { isServed: await served, socket };
}

describe('the sockets of one address', () => {
  it('are bounded, told of once, and given back when they close', async () => {
    const { port, refused } = await listen({ isShared: false, max: 2 });
    const first = await isServed(port);
    expect([first.isServed, (await isServed(port)).isServed]).toEqual([true, true]);
    expect((await isServed(port)).isServed).toBe(false);
    expect((await isServed(port)).isServed).toBe(false);
    expect(refused.length).toBeGreaterThan(0);
    const ended = once(first.socket, 'close');
    first.socket.end('GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n');
    first.socket.resume();
    await ended;
    expect((await isServed(port)).isServed).toBe(true);
  });

  it('are not bounded where many senders share it', async () => {
    const { port } = await listen({ isShared: true, max: 1 });
    for (let count = 0; count < 4; count += 1) expect((await isServed(port)).isServed).toBe(true);
  });
});
