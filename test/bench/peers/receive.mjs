import { createHmac, timingSafeEqual } from 'node:crypto';
import Fastify from 'fastify';

/**
 * Shared by all durable peers: receives GitHub's deliveries, verifies them, stores each with `store(id, delivery)`
 * before it answers, and reports how many were executed. Prints its address.
 */
export async function receive(store) {
  let executed = 0;
  const app = Fastify();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.post('/hook', async (request, reply) => {
    const digest = createHmac('sha256', process.env.PEER_SECRET).update(request.body).digest();
    const sent = Buffer.from(String(request.headers['x-hub-signature-256']).slice('sha256='.length), 'hex');
    if (sent.length !== digest.length || !timingSafeEqual(sent, digest)) return reply.code(401).send({ ok: false });
    const event = request.headers['x-github-event'];
    await store(request.headers['x-github-delivery'], { event, body: JSON.parse(request.body.toString()) });
    return { ok: true };
  });
  app.get('/executed', async () => String(executed));
  return {
    /** The step: checks that it got the delivery, and counts it. */
    step(delivery) {
      if (delivery.event === undefined) throw new Error('the step got no delivery');
      executed += 1;
    },
    async listen() {
      await app.listen({ port: 0, host: '127.0.0.1' });
      process.stdout.write(`http://127.0.0.1:${app.server.address().port}\n`);
      process.on('SIGTERM', () => process.exit(0));
    },
  };
}
