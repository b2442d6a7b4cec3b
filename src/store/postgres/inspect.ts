import { decide } from '../decisions/decision.ts';
import { inspectionOf } from '../decisions/inspection.ts';
import type { ChainKey } from '../sealed-body.ts';
import type { Inspection } from '../store.ts';
import { type Connections, createConnections } from './connections.ts';
import { requireCurrent } from './migrate.ts';
import type { Sql } from './sql.ts';

interface Place {
  readonly directUrl: string;
  readonly schema: string;
}

/** Reads a database in one transaction, which ends with the work. */
export async function readDatabase<Value>(place: Place, work: (sql: Sql) => Promise<Value>): Promise<Value> {
  const connections = await connect(place);
  try {
    return await connections.read(work);
  } finally {
    await connections.close();
  }
}

/** Throws an error that names the place, without its credentials. */
async function connect({ directUrl: url, schema }: Place, chainKey?: ChainKey): Promise<Connections> {
  await requireCurrent({ url, schema }).catch((error: unknown) => {
    const { protocol, username, password, host, pathname } = new URL(url);
    const place = `${protocol}//${username === '' && password === '' ? '' : '***@'}${host}${pathname}`;
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`the database ${place} cannot be read: ${reason}`, { cause: error });
  });
  return createConnections({
    url,
    schema,
    isPrepared: false,
    applicationName: 'sluice/check',
    replica: 'check',
    chainKey,
  });
}

/** Reads a database in one transaction, so that all answers are from the same instant and no writer waits for it. */
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
    ...inspectionOf(sql.port, decide),
    async close() {
      finish();
      await connections.close();
    },
  };
}
