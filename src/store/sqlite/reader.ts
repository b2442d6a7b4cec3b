import { prepareBatch } from './batch.ts';
import { CallQueue } from './call-queue.ts';
import { checkpoint } from './checkpoint.ts';
import { openReader } from './connection.ts';
import { operations, prepareRuns } from './operations.ts';
import type { Send, Service } from './service.ts';

/** Answers what reads, one call a transaction: a slow query makes nobody wait who was called before it. */
export function openReaderService(path: string, send: Send): Service {
  const { db, close } = openReader(path);
  const runs = prepareRuns((name) => {
    const operation = operations[name];
    return operation.thread === 'reader' ? operation.prepare(db) : undefined;
  });
  const runBatch = prepareBatch(db, 'BEGIN');
  const queue = new CallQueue({ runs, runBatch, send, maxCalls: 1, maxBytes: 0 });
  return {
    take: (calls, bytes) => queue.take(calls, bytes),
    checkpoint() {
      checkpoint(db);
      send({ kind: 'checkpointed' });
    },
    close() {
      queue.drain();
      close();
    },
  };
}
