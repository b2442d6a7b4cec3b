import { createServer } from 'node:http2';
import * as restate from '@restatedev/restate-sdk';
import { Pool } from 'undici';
import { receive } from './receive.mjs';

const ingress = new Pool(process.env.PEER_INGRESS, { connections: 50 });
const receiver = await receive(async (id, delivery) => {
  const headers = { 'content-type': 'application/json', 'idempotency-key': id };
  const body = JSON.stringify(delivery);
  const answer = await ingress.request({ method: 'POST', path: '/deliveries/deliver/send', headers, body });
  await answer.body.dump();
  if (answer.statusCode >= 300) throw new Error(`Restate answered ${answer.statusCode}`);
});
const deliveries = restate.service({
  name: 'deliveries',
  handlers: { deliver: (context, delivery) => context.run('step', () => receiver.step(delivery)) },
});
const server = createServer(restate.createEndpointHandler({ services: [deliveries] }));
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const registered = await fetch(`${process.env.PEER_ADMIN}/deployments`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ uri: `http://127.0.0.1:${server.address().port}` }),
});
if (!registered.ok) throw new Error(`Restate does not take the service: ${await registered.text()}`);
await receiver.listen();
