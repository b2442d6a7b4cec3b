import { once } from 'node:events';
import { Server } from 'node:net';
import Fastify from 'fastify';
import { expect, it, onTestFinished, vi } from 'vitest';
import { ListenError, listen, listenAt } from '../src/listening.ts';

/** As on a machine whose kernel has no IPv6. */
function withoutIpv6(): void {
  const { listen: really } = Server.prototype;
  vi.spyOn(Server.prototype, 'listen').mockImplementation(function (this: Server, ...given: unknown[]) {
    const [at] = given as [{ host?: string }];
    if (at.host?.includes(':') !== true) return really.apply(this, given as Parameters<Server['listen']>);
    const error = Object.assign(new Error('listen'), { code: 'EAFNOSUPPORT' });
    process.nextTick(() => this.emit('error', error));
    return this;
  });
  onTestFinished(() => void vi.restoreAllMocks());
}

it('listens at all addresses, of IPv4 and IPv6 where the machine has both', async () => {
  const fastify = Fastify().get('/', (request) => request.ip);
  onTestFinished(() => fastify.close());
  const { port } = new URL(await listen(fastify as never, { host: '::', port: 0 }));
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200);
});

it('listens at all addresses of IPv4 where there is no IPv6, and there only where all were asked for', async () => {
  withoutIpv6();
  const fastify = Fastify();
  onTestFinished(() => fastify.close());
  expect(await listen(fastify as never, { host: '::', port: 0 })).toMatch(/^http:\/\/0\.0\.0\.0:\d+$/);
  const server = new Server();
  const at = listenAt({ host: '::1', port: 0 }, (place) => once(server.listen(place), 'listening'));
  await expect(at).rejects.toThrow(ListenError);
});
