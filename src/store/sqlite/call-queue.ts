import type { Job, Settled } from './batch.ts';
import { sqliteCode } from './connection.ts';
import type { Answer, Call, Failure } from './messages.ts';
import type { Runs } from './operations.ts';
import type { Send } from './service.ts';

interface CallQueueOptions {
  readonly runs: Runs;
  readonly runBatch: (jobs: readonly Job[]) => Settled[];
  readonly send: Send;
  /** A batch ends after so many calls, or with the call whose body exceeds so many bytes. */
  readonly maxCalls: number;
  readonly maxBytes: number;
}

interface QueuedCall {
  readonly id: number;
  readonly job: Job;
  readonly bytes: number;
}

/**
 * Runs calls in batches that set their own pace: what arrives while one commits waits in the thread's port and is the
 * next one. No timer makes anybody wait for company.
 */
export class CallQueue {
  readonly #options: CallQueueOptions;
  #queue: QueuedCall[] = [];
  #isScheduled = false;

  constructor(options: CallQueueOptions) {
    this.#options = options;
  }

  take(calls: readonly Call[], bytes: Uint8Array): void {
    let offset = 0;
    for (const { id, name, args, bodyBytes } of calls) {
      const run = this.#options.runs[name];
      if (run === undefined) throw new Error(`${name} is not for this thread`);
      const length = bodyBytes ?? 0;
      const body = bodyBytes === undefined ? [] : [bytes.subarray(offset, offset + length)];
      offset += length;
      // Messages have no type; the table of operations types both their ends.
      this.#queue.push({ id, job: () => run(...([...args, ...body] as never[])), bytes: length });
    }
    this.#schedule();
  }

  /** Runs all that was taken. */
  drain(): void {
    while (this.#queue.length > 0) this.#runNext();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#queue.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#queue.length > 0) this.#runNext();
      this.#schedule();
    });
  }

  #runNext(): void {
    const calls = this.#queue.splice(0, this.#nextLength());
    const settled = this.#options.runBatch(calls.map(({ job }) => job));
    this.#options.send({ kind: 'answers', answers: calls.map(({ id }, at) => toAnswer(id, settled[at])) });
  }

  #nextLength(): number {
    const { maxCalls, maxBytes } = this.#options;
    let bytes = 0;
    let length = 0;
    for (const call of this.#queue) {
      length += 1;
      bytes += call.bytes;
      if (length >= maxCalls || bytes >= maxBytes) break;
    }
    return length;
  }
}

export function toFailure(error: unknown): Failure {
  return { message: error instanceof Error ? error.message : String(error), code: sqliteCode(error) };
}

function toAnswer(id: number, settled: Settled | undefined): Answer {
  return settled?.isFulfilled ? { id, value: settled.value } : { id, failure: toFailure(settled?.error) };
}
