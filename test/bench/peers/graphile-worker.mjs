import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { receive } from './receive.mjs';

const connectionString = process.env.PEER_DATABASE;
const logger = new Logger(() => () => {});
const utils = await makeWorkerUtils({ connectionString, logger, maxPoolSize: 20 });
await utils.migrate();
const receiver = await receive((id, delivery) => utils.addJob('deliver', delivery, { jobKey: id }));
await run({
  connectionString,
  logger,
  noHandleSignals: true,
  preset: { worker: { concurrentJobs: 20, maxPoolSize: 20, localQueue: { size: 50 } } },
  taskList: { deliver: async (delivery) => receiver.step(delivery) },
});
await receiver.listen();
