import type { Inspection } from '../store.ts';
import { createConnections } from './connections.ts';
import { requireCurrent } from './migrate.ts';
import { operations } from './operations.ts';
import type { Sql } from './sql.ts';

/** Reads a database in one transaction, so that all answers are from one instant and no writer waits for it. */
export async function inspectDatabase({
  directUrl: url,
  schema,
}: {
  readonly directUrl: string;
  readonly schema: string;
}): Promise<Inspection> {
  await requireCurrent({ url, schema });
  const connections = createConnections({
    url,
    schema,
    isPrepared: false,
    applicationName: 'sluice/check',
    replica: 'check',
  });
  let finish = () => {};
  const isFinished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const sql = await new Promise<Sql>((resolve, reject) => {
    connections
      .read(async (opened) => {
        resolve(opened);
        await isFinished;
      })
      .catch(reject);
  });
  return {
    sampleDeliveries: (query) => operations.sampleDeliveries.run(sql, query),
    listDeployed: () => operations.listDeployed.run(sql),
    findFlow: (flowId) => operations.findFlow.run(sql, flowId),
    findRevision: (flowId, revision) => operations.findRevision.run(sql, flowId, revision),
    readLiveFlow: (flowId) => operations.readLiveFlow.run(sql, flowId),
    findSuperseded: (manifest) => operations.findSuperseded.run(sql, manifest),
    listKeyFigures: (query) => operations.listKeyFigures.run(sql, query),
    listKeyUsers: (query) => operations.listKeyUsers.run(sql, query),
    async close() {
      finish();
      await connections.close();
    },
  };
}
