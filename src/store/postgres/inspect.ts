import type { ChainKey } from '../activity-chain.ts';
import type { Inspection } from '../store.ts';
import { type Connections, createConnections } from './connections.ts';
import { requireCurrent } from './migrate.ts';
import { operations } from './operations.ts';
import type { Sql } from './sql.ts';

interface Place {
  readonly directUrl: string;
  readonly schema: string;
}

/** Reads a database in one transaction, which is over with the work. */
export async function readDatabase<Value>(place: Place, work: (sql: Sql) => Promise<Value>): Promise<Value> {
  const connections = await connect(place);
  try {
    return await connections.read(work);
  } finally {
    await connections.close();
  }
}

async function connect({ directUrl: url, schema }: Place, chainKey?: ChainKey): Promise<Connections> {
  await requireCurrent({ url, schema });
  return createConnections({
    url,
    schema,
    isPrepared: false,
    applicationName: 'sluice/check',
    replica: 'check',
    chainKey,
  });
}

/** Reads a database in one transaction, so that all answers are from one instant and no writer waits for it. */
export async function inspectDatabase(place: Place, chainKey?: ChainKey): Promise<Inspection> {
  const connections = await connect(place, chainKey);
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
    listRoutes: (slugs) => operations.listRoutes.run(sql, slugs),
    listKeyFigures: (query) => operations.listKeyFigures.run(sql, query),
    listKeyUsers: (query) => operations.listKeyUsers.run(sql, query),
    listInterventions: (query) => operations.listInterventions.run(sql, query),
    checkInterventions: (request) => operations.checkInterventions.run(sql, request),
    async close() {
      finish();
      await connections.close();
    },
  };
}
