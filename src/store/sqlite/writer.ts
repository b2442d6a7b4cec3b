import { type Job, prepareBatch, type Settled } from './batch.ts';
import { CallQueue, toFailure } from './call-queue.ts';
import { watchLog } from './checkpoint.ts';
import { openWriter } from './connection.ts';
import type { FileWatch } from './file-watch.ts';
import { boundLog } from './log-bounds.ts';
import { keepLogInMemory } from './memory-log.ts';
import { inMemory, type StoreOptions } from './messages.ts';
import { NonceIndex } from './nonce-index.ts';
import { operations, prepareRuns, threadOf } from './operations.ts';
import type { Send, Service } from './service.ts';

/** A batch holds no more, so that its first caller waits for a commit of a bounded size. */
const maxCalls = 512;
const maxBytes = 8 * 1024 * 1024;

interface WriterOptions {
  readonly path: string;
  readonly options: StoreOptions;
  readonly send: Send;
}

/** Answers what writes, in batches; where the store is in memory all that reads too, for no other connection sees it. */
export function openWriterService({ path, options, send }: WriterOptions): Service {
  const { db, watch, close } = openWriter(path);
  const isAlone = path === inMemory;
  if (options.log.inMemory) keepLogInMemory(db);
  const index = new NonceIndex(db);
  const runs = prepareRuns((name) => {
    const operation = operations[name];
    if (operation.thread === 'writer') return operation.prepare(db, { index, held: options.held });
    return isAlone || threadOf(name, options) === 'writer' ? operation.prepare(db) : undefined;
  });
  // Last of all that is counted in a batch: it goes by the counts.
  boundLog(db, options.log);
  const log = isAlone ? undefined : watchLog(db, () => send({ kind: 'logGrown' }));
  const runIndexed = withIndexing(prepareBatch(db, 'BEGIN IMMEDIATE'), index);
  const runLogged = (jobs: readonly Job[]) => {
    const settled = runIndexed(jobs);
    log?.committed();
    return settled;
  };
  const runBatch =
    watch === undefined
      ? runLogged
      : withWatch(runLogged, watch, (error) => send({ kind: 'lost', failure: toFailure(error) }));
  const queue = new CallQueue({ runs, runBatch, send, maxCalls, maxBytes });
  return {
    take: (calls, bytes) => queue.take(calls, bytes),
    checkpointed: () => log?.checkpointed(),
    close() {
      queue.drain();
      close();
    },
  };
}

/** Gives each batch its share of the indexing of nonces, and tells the index how the batch ended. */
export function withIndexing(runBatch: (jobs: readonly Job[]) => Settled[], index: NonceIndex): typeof runBatch {
  return (jobs) => {
    const step = index.begin(jobs.length);
    const settled = runBatch(step === undefined ? jobs : [...jobs, step.run]);
    if (settled.every(({ isFulfilled }) => !isFulfilled)) index.rolledBack();
    else if (settled.at(jobs.length)?.isFulfilled) step?.committed();
    return settled.slice(0, jobs.length);
  };
}

/**
 * Runs nothing once the database file is lost, and acknowledges nothing that may have been written into a lost one: it
 * looks before each batch and again between commit and answers. `tell` is called once.
 */
function withWatch(
  runBatch: (jobs: readonly Job[]) => Settled[],
  watch: FileWatch,
  tell: (error: Error) => void,
): typeof runBatch {
  let isTold = false;
  const check = () => {
    const error = watch.check();
    if (error !== undefined && watch.isLost && !isTold) {
      isTold = true;
      tell(error);
    }
    return error;
  };
  return (jobs) => {
    const settled = check() === undefined ? runBatch(jobs) : [];
    const error = check();
    return error === undefined ? settled : jobs.map(() => ({ isFulfilled: false, error }));
  };
}
