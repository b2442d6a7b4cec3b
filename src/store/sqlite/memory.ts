import { StoreUnavailableError } from '../../errors.ts';
import { inTurns } from '../../model/turns.ts';
import { handlesOf } from '../part.ts';
import type { Store } from '../store.ts';
import { prepareAcceptanceRows } from './acceptance.ts';
import { type Job, prepareBatch, type Settled } from './batch.ts';
import { memberOf, UNBOUNDED } from './client.ts';
import { openWriter } from './connection.ts';
import { keepLogBounded } from './deliveries.ts';
import { inMemory, type OperationName } from './messages.ts';
import { openIndexes, withIndexing } from './nonce-index.ts';
import { crossings, operationNames, operations } from './operations.ts';
import { openPort } from './port.ts';
import { soleReplica } from './sole-replica.ts';

/**
 * An empty store in the memory of the caller's thread. A call costs no message between threads, which is half the time
 * of a simulated step; every few ms other code gets the event loop.
 */
export function openMemoryStore(): Store {
  const { db, close } = openWriter(inMemory);
  openPort(db, undefined);
  const indexes = openIndexes(db);
  const state = { indexes, rows: prepareAcceptanceRows(db, indexes), held: UNBOUNDED };
  const prepare = (name: OperationName) => operations[name].prepare(db, state);
  const runs = Object.fromEntries(operationNames.map((name) => [name, prepare(name)]));
  // The last counter of a batch, as in a writer thread.
  keepLogBounded(db, { inMemory: false, ...UNBOUNDED });
  const runBatch = withIndexing(db, prepareBatch(db, 'BEGIN IMMEDIATE'), indexes);
  const turn = inTurns();
  const underWay = new Set<Promise<unknown>>();
  let isClosed = false;
  const run = async (name: OperationName, given: readonly unknown[]) => {
    await turn();
    const member = () => runs[name]?.(...(given as never[]));
    // Only this thread uses the database: no write comes between two statements of a reading member.
    const [settled] = operations[name].thread === 'reader' ? [settledBy(member)] : runBatch([member]);
    if (!settled?.isFulfilled) throw unavailable(settled?.error);
    // The caller gets its own copy, as from a thread. Values of flows were read for this call, and never change.
    return crossings[name]?.answer === undefined ? structuredClone(settled.value) : settled.value;
  };
  const call: Parameters<typeof memberOf>[1]['call'] = async (name, given, { body = null } = {}) => {
    if (isClosed) throw new StoreUnavailableError('the store is closed', { isForGood: true });
    const running = run(name, body === null ? given : [...given, body]);
    underWay.add(running);
    return running.finally(() => underWay.delete(running));
  };
  const members = Object.fromEntries(
    operationNames.map((name) => {
      const isSentAsRows = crossings[name]?.rows !== undefined;
      return [name, isSentAsRows ? memberOf(name, { call }) : (...given: unknown[]) => call(name, given)];
    }),
  ) as Pick<Store, OperationName>;
  let endChanges = () => {};
  const hasClosed = new Promise<void>((resolve) => {
    endChanges = resolve;
  });
  return {
    ...members,
    of: handlesOf(members),
    ...soleReplica({ name: 'memory', hasClosed, keepTime: members.keepTime, countRunning: async () => 0 }),
    async close() {
      isClosed = true;
      endChanges();
      await Promise.allSettled(underWay);
      if (db.open) close();
    },
  };
}

function settledBy(job: Job): Settled {
  try {
    return { isFulfilled: true, value: job() };
  } catch (error) {
    return { isFulfilled: false, error };
  }
}

function unavailable(cause: unknown): StoreUnavailableError {
  return new StoreUnavailableError(cause instanceof Error ? cause.message : String(cause), { cause });
}
