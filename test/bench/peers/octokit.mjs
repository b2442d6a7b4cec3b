import { createServer } from 'node:http';
import { createNodeMiddleware, Webhooks } from '@octokit/webhooks';

// The middleware verifies, parses and passes each delivery to a handler that does nothing.
const webhooks = new Webhooks({ secret: process.env.PEER_SECRET });
webhooks.on('push', () => {});
const middleware = createNodeMiddleware(webhooks, { path: '/hook' });
const server = createServer((request, response) => void middleware(request, response));
server.listen(0, '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${server.address().port}\n`));
process.on('SIGTERM', () => process.exit(0));
