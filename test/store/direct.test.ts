import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { directClient } from '../../src/store/postgres/direct.ts';

/** A database that accepts connections and stays silent. */
async function silentDatabase() {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => {});
    sockets.push(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { server, url: `postgres://sluice@127.0.0.1:${(server.address() as AddressInfo).port}/sluice` };
}

describe('a connection that is ended before it is made', () => {
  test('rejects for who waits for it, while the database is silent', async () => {
    const { server, url } = await silentDatabase();
    const direct = directClient({ url, applicationName: 'test' });
    const reached = once(server, 'connection');
    const connecting = direct.connect();
    await reached;
    await Promise.all([expect(connecting).rejects.toThrow('ended before it was made'), direct.end()]);
  });

  test('rejects for who waits for it, before it reached the database', async () => {
    const { url } = await silentDatabase();
    const direct = directClient({ url, applicationName: 'test' });
    const connecting = direct.connect();
    await Promise.all([expect(connecting).rejects.toThrow('ended before it was made'), direct.end()]);
  });
});
