import { PgBoss } from 'pg-boss';
import { receive } from './receive.mjs';

const boss = new PgBoss({ connectionString: process.env.PEER_DATABASE, max: 20 });
boss.on('error', () => {});
await boss.start();
await boss.createQueue('deliveries', { notify: true });
const receiver = await receive((id, delivery) => boss.send('deliveries', delivery, { id }));
const settings = { batchSize: 100, localConcurrency: 2, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
await boss.work('deliveries', settings, async (jobs) => {
  for (const { data } of jobs) receiver.step(data);
});
await receiver.listen();
