import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { format } from 'node:util';
import { Logger, parseCronItems, run, type WorkerEvents } from 'graphile-worker';
import pg from 'pg';
import type { Wakeable } from '../store.ts';
import { requireWritable } from './outage.ts';
import { workerSchemaOf } from './sql.ts';

/** While a caller waits, success and failure go to the caller; there is nothing else to report. */
export const QUIET = new Logger(() => () => {});

/** Takes the lines that graphile-worker prints itself, bypassing any logger that it is given. */
const printed = new AsyncLocalStorage<(line: string) => void>();

const hearing = new Set<unknown>();

function hearConsole({ console }: typeof globalThis): void {
  for (const name of ['error', 'warn'] as const) {
    const print = console[name];
    if (hearing.has(print)) continue;
    const hear = (...args: unknown[]) => {
      const take = printed.getStore();
      if (take === undefined) print.apply(console, args);
      else take(format(...args));
    };
    hearing.add(hear);
    console[name] = hear;
  }
}

/** Runs work and takes its console lines, present and later, instead of printing them. */
export function withoutConsole<Value>(take: (line: string) => void, work: () => Value): Value {
  hearConsole(globalThis);
  return printed.run(take, work);
}

/** The task that the SQL triggers of the steps add; see the migrations. */
const TASK = 'step';
/** The engine's cron leaves one job a minute, however many processes run it. */
const MINUTE_TASK = 'minute';
const EVERY_MINUTE = {
  task: MINUTE_TASK,
  match: '* * * * *',
  identifier: MINUTE_TASK,
  // Several missed minutes become one job.
  options: { jobKey: MINUTE_TASK, maxAttempts: 1 },
};
/**
 * Notifications are sent for steps that are due now. Polling at this interval finds steps that become due later, and
 * steps of lost notifications.
 */
const POLL_MS = 500;
const ANSWER_MS = 5000;
const BACKOFF_MS = { first: 200, most: 10_000 };
/** How long closing waits for a silent database; its jobs are then freed like those of dead processes. */
const CLOSE_MS = 2000;

interface WakeUpOptions {
  /** Leads to PostgreSQL itself: a pooler does not carry notices. */
  readonly url: string;
  readonly schema: string;
  readonly applicationName: string;
  /** Receives the engine's lines about its own retries: the log of a database that is away has the rest. */
  readonly onLine?: ((line: string) => void) | undefined;
}

/**
 * Takes wake-ups for this process while it has free slots, one at a time, because a claim takes everything that is due.
 * The rows are authoritative, so a wake-up may be lost or duplicated; if it is lost, the next poll for due steps finds
 * the step.
 */
export class WakeUps {
  readonly #options: WakeUpOptions;
  readonly #closing = new AbortController();
  #running: Promise<void> | undefined;
  #stop: (() => void) | undefined;
  #endWait: (() => void) | undefined;
  /** The last runner's name in the jobs that it has taken. */
  #poolId: string | undefined;

  constructor(options: WakeUpOptions) {
    this.#options = options;
  }

  start(wakeable: Wakeable): void {
    if (!this.#closing.signal.aborted) this.#running ??= this.#supervise(wakeable);
  }

  /** Makes all connections again. */
  readonly reconnect = (): void => this.#stop?.();

  /** Takes no further wake-up, and resolves when the last one is answered. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#endWait?.();
    this.#stop?.();
    await Promise.race([this.#running, setTimeout(CLOSE_MS, undefined, { ref: false })]);
  }

  /** The runner gives up if the database is away for long: another replaces it, for as long as the store is open. */
  async #supervise(wakeable: Wakeable): Promise<void> {
    const { signal } = this.#closing;
    const { onLine = () => {} } = this.#options;
    let waitMs = BACKOFF_MS.first;
    while (!signal.aborted) {
      const startedAt = performance.now();
      await withoutConsole(onLine, () => this.#runOnce(wakeable, onLine)).catch((error: unknown) => {
        // The database is away, or its tables of jobs were removed: polling finds due steps without them.
        onLine(`the engine ended: ${error instanceof Error ? error.message : String(error)}`);
      });
      if (performance.now() - startedAt > BACKOFF_MS.most) waitMs = BACKOFF_MS.first;
      await setTimeout(waitMs, undefined, { ref: false, signal }).catch(() => {});
      waitMs = Math.min(waitMs * 2, BACKOFF_MS.most);
    }
  }

  /** Resolves or rejects when the runner has ended. */
  async #runOnce(wakeable: Wakeable, onLine: (line: string) => void): Promise<void> {
    const { signal } = this.#closing;
    const pool = this.#createPool();
    try {
      await this.#unlock(pool);
      const runner = await run({
        pgPool: pool,
        schema: workerSchemaOf(this.#options.schema),
        logger: new Logger(() => (_level, line) => onLine(line)),
        events: this.#createEvents(),
        // Our own handlers stop the process in order.
        noHandleSignals: true,
        // A worker that waits here takes no job, so that a process with a free slot gets it.
        forbiddenFlags: () => this.#untilSlot(wakeable),
        taskList: {
          [TASK]: async (_payload, { addJob, job }) => {
            const isAll = !signal.aborted && (await printed.exit(() => wakeable.wake()));
            // However often this happens, one job is enough to wake one other process.
            if (!isAll) await addJob(TASK, { v: 1 }, { jobKey: `more:${job.locked_by}` });
          },
          // The work it starts continues in the background: it may take long and must not delay wake-ups of steps.
          [MINUTE_TASK]: () => printed.exit(() => wakeable.everyMinute()),
        },
        parsedCronItems: parseCronItems([EVERY_MINUTE]),
        preset: {
          worker: {
            concurrentJobs: 1,
            pollInterval: POLL_MS,
            // Without batches, a job that cannot be answered because the database is away ends the process.
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
          },
        },
      });
      this.#stop = () => void runner.stop().catch(() => {});
      if (signal.aborted) this.#stop();
      await runner.promise;
    } finally {
      this.#stop = undefined;
      await pool.end().catch(() => {});
    }
  }

  /** Frees jobs that the previous runner had taken when it lost the database. */
  async #unlock(pool: pg.Pool): Promise<void> {
    const schema = pg.escapeIdentifier(workerSchemaOf(this.#options.schema));
    if (this.#poolId !== undefined) {
      await pool.query(`SELECT ${schema}.force_unlock_workers($1)`, [[this.#poolId]]);
    }
  }

  #createEvents(): WorkerEvents {
    const events: WorkerEvents = new EventEmitter();
    events.once('pool:create', ({ workerPool }) => {
      this.#poolId = workerPool.id;
    });
    return events;
  }

  async #untilSlot(wakeable: Wakeable): Promise<string[]> {
    await new Promise<void>((resolve) => {
      this.#endWait = resolve;
      if (this.#closing.signal.aborted) resolve();
      else void wakeable.hasSlot().then(resolve);
    });
    return [];
  }

  #createPool(): pg.Pool {
    const { url, applicationName } = this.#options;
    const pool = new pg.Pool({
      connectionString: url,
      max: 2,
      application_name: `${applicationName}/jobs`,
      connectionTimeoutMillis: ANSWER_MS,
      query_timeout: ANSWER_MS,
      keepAlive: true,
      // The engine keeps its connections whatever they answer, so a connection that cannot write must not become one.
      verify: (client, done) => void requireWritable((text) => client.query(text)).then(() => done(), done),
    });
    // A broken connection leaves the pool by itself, and its query fails.
    pool.on('error', () => {});
    pool.on('connect', (client) => client.on('error', () => {}));
    return pool;
  }
}
