import { StoreUnavailableError } from '../../errors.ts';

/** Is told once when the database goes away, and once when it is back. */
export interface OutageListener {
  onAway?: ((error: Error) => void) | undefined;
  onBack?: ((awayMs: number) => void) | undefined;
}

interface OutageOptions extends OutageListener {
  /** Resolves if the database answers on a new connection. */
  probe(): Promise<unknown>;
  /** Called when the database goes away, after all who waited for it were refused. */
  forget(): void;
}

const PROBE_EVERY_MS = 200;

/**
 * Knows whether the database is away. While it is, every call is refused at once: the database is asked by one probe at a
 * time, and not by each who needs it.
 */
export class Outage {
  readonly #options: OutageOptions;
  /** Of those who wait for the database. */
  readonly #refusals = new Set<(error: Error) => void>();
  #away: { readonly error: Error; readonly since: number } | undefined;
  #probing = false;
  #isClosed = false;

  constructor(options: OutageOptions) {
    this.#options = options;
  }

  /** Yields a connection, unless the database goes away meanwhile; one that comes later is given back. */
  connected<Client extends { release(): void }>(connect: () => Promise<Client>): Promise<Client> {
    if (this.#away !== undefined) return Promise.reject(this.#refusal(this.#away.error));
    return this.during(connect(), (client) => client.release());
  }

  /** Waits for an answer, unless the database goes away meanwhile: then `onLate` takes what may still come. */
  during<Value>(answer: Promise<Value>, onLate: (value: Value) => void = () => {}): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.#refusals.add(reject);
      answer.then(
        (value) => {
          if (this.#refusals.delete(reject)) resolve(value);
          else onLate(value);
        },
        (error: unknown) => {
          this.#refusals.delete(reject);
          reject(error);
        },
      );
    });
  }

  /** Takes what kept a transaction from its end, and yields what to tell its caller. */
  noticed(error: unknown): StoreUnavailableError {
    const kind = kindOf(error);
    if (kind === undefined) return toStoreError(error);
    // One connection may be lost while the others work; where nothing answers, all have waited for long enough.
    if (kind === 'silent') this.#goAway(toError(error));
    else this.ask();
    // A full disk or memory may pass the probe, and then only the caller can tell of it.
    return kind === 'exhausted' && this.#away === undefined ? toStoreError(error) : this.#refusal(toError(error));
  }

  /** Finds out in the background whether the database is away. */
  ask(): void {
    void this.#probe();
  }

  close(): void {
    this.#isClosed = true;
  }

  #refusal(cause: Error): StoreUnavailableError {
    return new StoreUnavailableError(messageOf(cause), { cause, isAway: true });
  }

  #goAway(error: Error): void {
    if (this.#away === undefined) {
      this.#away = { error, since: performance.now() };
      for (const refuse of this.#refusals) refuse(this.#refusal(error));
      this.#refusals.clear();
      this.#options.forget();
      this.#options.onAway?.(error);
    }
    this.ask();
  }

  async #probe(): Promise<void> {
    if (this.#probing) return;
    this.#probing = true;
    while (!this.#isClosed) {
      try {
        await this.#options.probe();
        break;
      } catch (error) {
        this.#goAway(toError(error));
      }
      await new Promise((again) => setTimeout(again, PROBE_EVERY_MS).unref());
    }
    this.#probing = false;
    const away = this.#away;
    this.#away = undefined;
    if (away !== undefined && !this.#isClosed) this.#options.onBack?.(performance.now() - away.since);
  }
}

/**
 * Of Node's sockets and look-ups, and of PostgreSQL that stops or starts, or that takes no writes on this connection:
 * its manual, appendix A. A session that began while the server was read-only may stay so for good.
 */
const LOST =
  /^(?:E(?:CONN\w+|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|HOSTDOWN|NOTFOUND|AI_AGAIN)|57P0[1-4]|08\w{3}|25006)$/;
/** Of PostgreSQL that lacks disk, memory or connections. */
const EXHAUSTED = /^53\w{3}$/;
/** The driver's own errors have no code. */
const LOST_MESSAGES = /^Connection terminated|^Client has encountered a connection error/;
const SILENT_MESSAGES = /^Query read timeout|^Connection terminated due to connection timeout|^timeout expired/;

/** How an error says that the database is away; undefined where it says something else. */
function kindOf(error: unknown): 'lost' | 'silent' | 'exhausted' | undefined {
  if (error instanceof StoreUnavailableError) return undefined;
  const message = error instanceof Error ? error.message : '';
  if (SILENT_MESSAGES.test(message)) return 'silent';
  if (EXHAUSTED.test(codeOf(error) ?? '')) return 'exhausted';
  return LOST.test(codeOf(error) ?? '') || LOST_MESSAGES.test(message) ? 'lost' : undefined;
}

/** What kept a store from being opened: a database that is away may come back, all else is for the operator to mend. */
export function toOpenError(error: unknown): StoreUnavailableError {
  const { message, cause } = toStoreError(error);
  return new StoreUnavailableError(message, { cause, isAway: losesConnection(error) });
}

/** Whether the connection that gave the error is of no more use. */
export function losesConnection(error: unknown): boolean {
  return kindOf(error) !== undefined;
}

/** Throws unless new connections can write, as one that asks this could. */
export async function requireWritable(query: (text: string) => Promise<{ rows: unknown[] }>): Promise<void> {
  const { rows } = await query("SELECT current_setting('transaction_read_only') AS answer");
  if ((rows[0] as { answer?: unknown } | undefined)?.answer !== 'on') return;
  throw Object.assign(new Error('the database is read-only (transaction_read_only is on)'), { code: '25006' });
}

export function codeOf(error: unknown): string | undefined {
  return (error as { code?: string } | null | undefined)?.code;
}

/** Whatever keeps a transaction from its commit, the caller can only try again. Nothing of it remains, unless the answer to its commit was lost. */
function toStoreError(error: unknown): StoreUnavailableError {
  if (error instanceof StoreUnavailableError) return error;
  return new StoreUnavailableError(messageOf(toError(error)), { cause: error });
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function messageOf(error: Error): string {
  return error.message || (codeOf(error) ?? 'PostgreSQL does not answer');
}
