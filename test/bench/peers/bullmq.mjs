import { Queue, Worker } from 'bullmq';
import { receive } from './receive.mjs';

const connection = { host: '127.0.0.1', port: Number(process.env.PEER_REDIS_PORT), maxRetriesPerRequest: null };
const queue = new Queue('deliveries', { connection });
// Ended jobs are kept so that their ids stay known.
const receiver = await receive((id, delivery) => queue.add('delivery', delivery, { jobId: id }));
new Worker('deliveries', async ({ data }) => receiver.step(data), { connection, concurrency: 50 });
await receiver.listen();
