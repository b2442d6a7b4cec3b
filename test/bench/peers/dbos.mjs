import { DBOS } from '@dbos-inc/dbos-sdk';
import { receive } from './receive.mjs';

DBOS.setConfig({
  name: 'peer',
  systemDatabaseUrl: process.env.PEER_DATABASE,
  systemDatabasePoolSize: 20,
  logLevel: 'error',
  runAdminServer: false,
});
const workflow = DBOS.registerWorkflow(
  (delivery) => DBOS.runStep(async () => receiver.step(delivery), { name: 'step' }),
  { name: 'deliver' },
);
const receiver = await receive((id, delivery) => DBOS.startWorkflow(workflow, { workflowID: id })(delivery));
await DBOS.launch();
await receiver.listen();
