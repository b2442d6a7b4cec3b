import { createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import express from 'express';

const RED = createRequire(import.meta.url)('node-red');

const VERIFY = `
const digest = createHmac('sha256', secret).update(msg.payload).digest();
const sent = Buffer.from(String(msg.req.headers['x-hub-signature-256']).slice(7), 'hex');
msg.statusCode = sent.length === digest.length && timingSafeEqual(sent, digest) ? 200 : 401;
msg.payload = 'ok';
return msg;`;
const flow = [
  { id: 'tab', type: 'tab', label: 'push' },
  { id: 'in', type: 'http in', z: 'tab', url: '/hook', method: 'post', skipBodyParsing: true, wires: [['verify']] },
  { id: 'verify', type: 'function', z: 'tab', func: functionOf(VERIFY), outputs: 1, wires: [['out']] },
  { id: 'out', type: 'http response', z: 'tab', wires: [] },
];

function functionOf(body) {
  return `const { createHmac, timingSafeEqual, secret } = global.get('peer');${body}`;
}

writeFileSync('flows.json', JSON.stringify(flow));
const app = express();
const server = createServer(app);
RED.init(server, {
  userDir: process.cwd(),
  flowFile: 'flows.json',
  httpNodeRoot: '/',
  httpAdminRoot: false,
  logging: { console: { level: 'off' } },
  functionGlobalContext: { peer: { createHmac, timingSafeEqual, secret: process.env.PEER_SECRET } },
});
app.use('/', RED.httpNode);
const started = once(RED.events, 'flows:started');
await RED.start();
await started;
server.listen(0, '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${server.address().port}\n`));
process.on('SIGTERM', () => process.exit(0));
