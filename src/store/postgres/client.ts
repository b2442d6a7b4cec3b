import { randomUUID } from 'node:crypto';
import type { DeliveryRecord } from '../../model/delivery.ts';
import type { AcceptResult, Store, Wakeable } from '../store.ts';
import { type AcceptCall, acceptAll } from './accept-batch.ts';
import { accept } from './acceptance.ts';
import { type AdvanceAnswer, type AdvanceCall, advanceAll, isPlain } from './advance-batch.ts';
import { type ConnectionOptions, type Connections, createConnections, type Lane } from './connections.ts';
import { recordAll } from './deliveries.ts';
import { announce, Feed, seenNow } from './feed.ts';
import { grouped } from './groups.ts';
import { migrate } from './migrate.ts';
import type { OperationName } from './operation.ts';
import { operations } from './operations.ts';
import { toStoreError } from './outage.ts';
import { join, leave } from './replicas.ts';
import type { Sql } from './sql.ts';
import { WakeUps } from './wake-ups.ts';

export interface PostgresStoreOptions extends Omit<ConnectionOptions, 'replica'> {
  /** Leads to PostgreSQL itself where `url` leads to a pooler. */
  readonly directUrl?: string | undefined;
  /** Names this process, and owns its leases; no other that has the database may be called the same. Random by default. */
  readonly replica?: string | undefined;
}

/**
 * Opens the store on a PostgreSQL database, which several replicas may share. Migrates its schema first. Rejects with
 * an error that says what is wrong where the database cannot be reached or has a schema that this release does not know.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<OpenedStore> {
  const { url, directUrl = url, schema, applicationName, replica = randomUUID() } = options;
  await migrate({ url: directUrl, schema }).catch((error: unknown) => {
    throw toStoreError(error);
  });
  const connections = createConnections({ ...options, replica, isPooled: directUrl !== url });
  const joined = await connections
    .transact('write', async (sql) => ({ slot: await join(sql), seen: await seenNow(sql) }))
    .catch(async (error: unknown) => {
      await connections.close();
      throw error;
    });
  connections.countAs(joined.slot);
  const changes = new Feed({ url: directUrl, schema, applicationName, seen: joined.seen, read: connections.read });
  const wakeUps = new WakeUps({ url: directUrl, schema, applicationName });
  let closing: Promise<void> | undefined;
  return {
    ...membersOf(connections),
    replica,
    changes,
    onDue: (wakeable: Wakeable) => wakeUps.start(wakeable),
    close() {
      closing ??= closeAll(connections, [changes, wakeUps]);
      return closing;
    },
  };
}

type OpenedStore = Pick<Store, keyof typeof operations | 'changes' | 'onDue' | 'replica' | 'close'>;

function membersOf(connections: Connections): Pick<Store, keyof typeof operations> {
  // The table of operations types what is called and what is run: here both are only passed on.
  const table: Readonly<Record<string, { lane: Lane; run: (sql: Sql, ...args: never[]) => Promise<unknown> }>> =
    operations;
  const members = Object.fromEntries(
    Object.entries(table).map(([name, { lane, run }]) => [
      name,
      (...args: never[]) => {
        if (lane === 'read') return connections.read((sql) => run(sql, ...args));
        return connections.transact(lane, async (sql) => {
          const answer = await run(sql, ...args);
          await announce(sql, name as OperationName, { given: args[0], answer });
          return answer;
        });
      },
    ]),
  );
  const acceptOne = grouped<AcceptCall, AcceptResult>({
    width: connections.acceptConnections,
    runAll: (calls) => connections.transactTracked('accept', (sql) => acceptAll(sql, calls)),
    runAlone: ({ acceptance, lease }) => connections.transactTracked('accept', (sql) => accept(sql, acceptance, lease)),
  });
  // One at a time, and apart from acceptances: a flood of refused deliveries keeps none of them waiting.
  const recordOne = grouped<DeliveryRecord, 'recorded'>({
    width: 1,
    runAll: (records) => connections.transactTracked('write', (sql) => recordAll(sql, records)),
    runAlone: async (record) => {
      await connections.transactTracked('write', (sql) => recordAll(sql, [record]));
      return 'recorded';
    },
  });
  // On one connection, so that the outcomes that come during a flush share the next one.
  const advanceOne = grouped<AdvanceCall, AdvanceAnswer>({
    width: 1,
    runAll: (calls) => connections.transactTracked('write', (sql) => advanceAll(sql, calls)),
    runAlone: async ({ outcome, lease }) => ({
      advance: await connections.transactTracked('write', (sql) => operations.advance.run(sql, outcome, lease)),
    }),
  });
  const own = members as Pick<Store, keyof typeof operations>;
  return {
    ...own,
    advance: (outcome, lease) =>
      isPlain(outcome)
        ? connections.tracked(async () => (await advanceOne({ outcome, lease })).advance)
        : own.advance(outcome, lease),
    accept: (acceptance, lease) => connections.tracked(() => acceptOne({ acceptance, lease })),
    recordDelivery: (record) => connections.tracked(async () => void (await recordOne(record))),
  };
}

async function closeAll(connections: Connections, listeners: readonly (Feed | WakeUps)[]): Promise<void> {
  // Without its row the others do not take this replica for one that died. Where the database is away, they will.
  const closing = connections.close(leave);
  await Promise.all(listeners.map((listener) => listener.close()));
  await closing;
}
