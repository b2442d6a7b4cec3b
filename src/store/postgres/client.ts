import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { DeliveryRecord } from '../../model/delivery.ts';
import { handlesOf } from '../part.ts';
import { SHARE_MS } from '../shared-commits.ts';
import type { AcceptResult, SharedResult, Store, Wakeable } from '../store.ts';
import { acceptAll, type GivenAcceptance, type GivenShared, isAlone } from './acceptance.ts';
import { type AdvanceAnswer, type AdvanceCall, advanceAll, isPlain } from './advance-batch.ts';
import { announce } from './announce.ts';
import { type ConnectionOptions, type Connections, createConnections, type Purpose } from './connections.ts';
import { recordAll } from './deliveries.ts';
import { Feed, seenNow } from './feed.ts';
import { grouped, inTurns } from './groups.ts';
import { type MigrateOptions, migrate } from './migrate.ts';
import type { OperationName } from './operation.ts';
import { operations } from './operations.ts';
import { toOpenError } from './outage.ts';
import { join, leave, NameTakenError } from './replicas.ts';
import type { Sql } from './sql.ts';
import { WakeUps } from './wake-ups.ts';

export interface PostgresStoreOptions
  extends Omit<ConnectionOptions, 'replica'>,
    Pick<MigrateOptions, 'onMigrating' | 'onBlocked' | 'onForeign'> {
  /** Leads to PostgreSQL itself if `url` leads to a pooler. */
  readonly directUrl?: string | undefined;
  /** Names this process, and owns its leases; every process on the database needs another name. Random by default. */
  readonly replica?: string | undefined;
  /** Called when a new, empty schema was made because there was none. */
  readonly onCreated?: (() => void) | undefined;
  /** Called when another process has taken this one's name: this one must end. */
  readonly onFatal?: ((error: Error) => void) | undefined;
  /** Receives graphile-worker's lines about its own retries. */
  readonly onEngineLine?: ((line: string) => void) | undefined;
}

/**
 * Opens the store on a PostgreSQL database, which several replicas may share. Migrates its schema first. Rejects with a
 * descriptive error if the database cannot be reached or has a schema that this release does not know.
 */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<OpenedStore> {
  const { url, directUrl = url, schema, applicationName, replica = randomUUID() } = options;
  const { onCreated, onMigrating, onBlocked, onForeign } = options;
  await migrate({ url: directUrl, schema, onCreated, onMigrating, onBlocked, onForeign }).catch((error: unknown) => {
    throw toOpenError(error);
  });
  const connections = createConnections({ ...options, replica, isPooled: directUrl !== url });
  const nameLock = `sluice replica ${replica} of ${schema}`;
  const shared = { url: directUrl, schema, applicationName };
  const wakeUps = new WakeUps({ ...shared, onLine: options.onEngineLine });
  const changes = new Feed({ ...shared, nameLock, onMoved: wakeUps.reconnect, read: connections.read });
  try {
    connections.countAs(await joinOthers(connections, changes));
  } catch (error) {
    await closeAll(connections, [changes]);
    throw error;
  }
  const members = membersOf(connections);
  let closing: Promise<void> | undefined;
  return {
    ...members,
    of: handlesOf(members),
    beat: (given) =>
      members.beat(given).catch((error: unknown) => {
        if (error instanceof NameTakenError) options.onFatal?.(error);
        throw error;
      }),
    replica,
    changes,
    runChanged: (runId) => changes.runChanged(runId),
    watchRuns: (isWatching) => changes.watchRuns(isWatching),
    onDue: (wakeable: Wakeable) => wakeUps.start(wakeable),
    close() {
      closing ??= closeAll(connections, [changes, wakeUps]);
      return closing;
    },
  };
}

/** How often to check whether a process of this name is alive. */
const NAME_LOOK_MS = 250;

/**
 * Puts this process on the list of replicas and yields the number of its counters. If another process of its name was
 * seen a moment ago, that one may have ended with its machine: this waits until all count it as dead. If it beats once
 * more, it is alive, and this rejects with `NameTakenError`.
 */
async function joinOthers(connections: Connections, changes: Feed): Promise<number> {
  let seenAt: number | undefined;
  for (;;) {
    const hasNameLock = await changes.takeName();
    const joined = await connections.transact('write', async (sql) => {
      const answer = await join(sql, { hasNameLock });
      if (answer.kind === 'joined') changes.begin(await seenNow(sql));
      else if (seenAt !== undefined && answer.seenAt !== seenAt) throw new NameTakenError(sql.replica);
      return answer;
    });
    if (joined.kind === 'joined') return joined.slot;
    seenAt = joined.seenAt;
    await wait(NAME_LOOK_MS);
  }
}

type OpenedStore = Pick<
  Store,
  keyof typeof operations | 'changes' | 'runChanged' | 'watchRuns' | 'onDue' | 'replica' | 'of' | 'close'
>;

function membersOf(connections: Connections): Pick<Store, keyof typeof operations> {
  // The table of operations has the types of calls and results; this code only passes them through.
  const table: Readonly<Record<string, { purpose: Purpose; run: (sql: Sql, ...args: never[]) => Promise<unknown> }>> =
    operations;
  const members = Object.fromEntries(
    Object.entries(table).map(([name, { purpose, run }]) => [
      name,
      (...args: never[]) => {
        if (purpose === 'read') return connections.read((sql) => run(sql, ...args));
        return connections.transact(purpose, async (sql) => {
          const answer = await run(sql, ...args);
          await announce(sql, name as OperationName, { given: args[0], answer });
          return answer;
        });
      },
    ]),
  );
  const acceptOne = grouped<GivenAcceptance | GivenShared, AcceptResult | SharedResult>({
    shareMs: () => SHARE_MS.accept,
    width: connections.acceptConnections,
    runAll: (calls) => connections.transactTracked('accept', (sql) => acceptAll(sql, calls)),
    runAlone: async (call) => {
      const [result] = await connections.transactTracked('accept', (sql) => acceptAll(sql, [call]));
      if (result === undefined) throw new Error('The acceptance has no result.');
      return result;
    },
  });
  // One group at a time, and apart from acceptances: a flood of refused deliveries never delays these.
  const recordOne = grouped<DeliveryRecord, 'recorded'>({
    shareMs: () => SHARE_MS.recordDelivery,
    width: 1,
    runAll: (records) => connections.transactTracked('write', (sql) => recordAll(sql, records)),
    runAlone: async (record) => {
      await connections.transactTracked('write', (sql) => recordAll(sql, [record]));
      return 'recorded';
    },
  });
  const inTurn = inTurns(LONE_OUTCOMES);
  const advanceAlone = ({ outcome, lease }: AdvanceCall): Promise<AdvanceAnswer> =>
    inTurn(outcome.runId, async () => ({
      advance: await connections.transactTracked('write', (sql) => operations.advance.run(sql, outcome, lease)),
    }));
  // On one connection, so that outcomes that arrive during a flush share the next one.
  const advanceOne = grouped<AdvanceCall, AdvanceAnswer>({
    shareMs: ({ outcome }) => (outcome.mayShareCommit === true ? SHARE_MS.advance : 0),
    width: 1,
    runAll: (calls) => connections.transactTracked('write', (sql) => advanceAll(sql, calls)),
    runAlone: advanceAlone,
  });
  const own = members as Pick<Store, keyof typeof operations>;
  return {
    ...own,
    advance: (outcome, lease) => {
      const advanceIt = isPlain(outcome) ? advanceOne : advanceAlone;
      return connections.tracked(async () => (await advanceIt({ outcome, lease })).advance);
    },
    accept: (acceptance, lease) =>
      connections.tracked(async () => {
        const result = await acceptOne({ acceptance, lease });
        if (!isAlone(result)) throw new Error('A delivery to one trigger has the result of a shared one.');
        return result;
      }),
    acceptShared: (members) => {
      // Held deliveries are announced to the others.
      if (members.some(({ start }) => start === 'later')) return own.acceptShared(members);
      return connections.tracked(async () => (await acceptOne({ members })) as SharedResult);
    },
    recordDelivery: (record) => connections.tracked(async () => void (await recordOne(record))),
  };
}

/** How many outcomes are stored alone at once: this leaves a writing connection for claims and leases. */
const LONE_OUTCOMES = 2;

async function closeAll(connections: Connections, listeners: readonly (Feed | WakeUps)[]): Promise<void> {
  // Without its row the others do not count this replica as dead. If the database is away, they will.
  const closing = connections.close(leave);
  await Promise.all(listeners.map((listener) => listener.close()));
  await closing;
}
