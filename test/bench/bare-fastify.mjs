import Fastify from 'fastify';

const app = Fastify();
app.removeAllContentTypeParsers();
app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
app.post('/hook', async (request) => ({ bytes: request.body.length }));
await app.listen({ port: 0, host: '127.0.0.1' });
process.stdout.write(`http://127.0.0.1:${app.server.address().port}\n`);
process.on('SIGTERM', () => process.exit(0));
