import { StoreUnavailableError } from '../../errors.ts';

/** Is called once when the database goes away, and once when it is back. */
export interface OutageListener {
  onAway?: ((error: Error) => void) | undefined;
  onBack?: ((awayMs: number) => void) | undefined;
}

interface OutageOptions extends OutageListener {
  /** Resolves if the database answers on a new connection. */
  probe(): Promise<unknown>;
  /** Called when the database goes away, after refusing all callers that waited for it. */
  forget(): void;
}

const PROBE_EVERY_MS = 200;

/**
 * Knows whether the database is away. Meanwhile it refuses every call at once: one probe at a time asks the database,
 * instead of each caller.
 */
export class Outage {
  readonly #options: OutageOptions;
  /** Refuses the callers that wait for the database. */
  readonly #refusals = new Set<(error: Error) => void>();
  #away: { readonly error: Error; readonly since: number } | undefined;
  #probing = false;
  #isClosed = false;

  constructor(options: OutageOptions) {
    this.#options = options;
  }

  /** Yields a connection, unless the database goes away meanwhile; a later connection is given back. */
  connected<Client extends { release(): void }>(connect: () => Promise<Client>): Promise<Client> {
    if (this.#away !== undefined) return Promise.reject(this.#refusal(this.#away.error));
    return this.during(connect(), (client) => client.release());
  }

  /** Waits for an answer, unless the database goes away meanwhile: then `onLate` receives an answer that comes yet. */
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

  /** Takes the error that stopped a transaction, and yields the error for its caller. */
  noticed(error: unknown): StoreUnavailableError {
    const kind = kindOf(error);
    if (kind === undefined) return toStoreError(error);
    // One lost connection says little about the others; but if nothing answers, all have waited for long enough.
    if (kind === 'silent') this.#goAway(toError(error));
    else this.ask();
    // A full disk or memory can pass the probe, and then only the caller can report it.
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
 * Codes of Node's sockets and look-ups, and of PostgreSQL that stops or starts, or refuses writes on this connection:
 * its manual, appendix A. A session that began while the server was read-only may stay so for good.
 */
const LOST =
  /^(?:E(?:CONN\w+|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|HOSTDOWN|NOTFOUND|AI_AGAIN)|57P0[1-4]|08\w{3}|25006)$/;
/** Codes of PostgreSQL without disk, memory or connections. */
const EXHAUSTED = /^53\w{3}$/;
/** The driver's own errors have no code. */
const LOST_MESSAGES = /^Connection terminated|^Client has encountered a connection error/;
const SILENT_MESSAGES = /^Query read timeout|^Connection terminated due to connection timeout|^timeout expired/;

/** How an error shows that the database is away; undefined for other errors. */
function kindOf(error: unknown): 'lost' | 'silent' | 'exhausted' | undefined {
  if (error instanceof StoreUnavailableError) return undefined;
  const message = error instanceof Error ? error.message : '';
  if (SILENT_MESSAGES.test(message)) return 'silent';
  if (EXHAUSTED.test(codeOf(error) ?? '')) return 'exhausted';
  return LOST.test(codeOf(error) ?? '') || LOST_MESSAGES.test(message) ? 'lost' : undefined;
}

/** Why a store could not be opened: a database that is away may come back, the operator has to fix all else. */
export function toOpenError(error: unknown): StoreUnavailableError {
  const { message, cause } = toStoreError(error);
  return new StoreUnavailableError(message, { cause, isAway: losesConnection(error) });
}

/** Whether the connection that gave the error has become useless. */
export function losesConnection(error: unknown): boolean {
  return kindOf(error) !== undefined;
}

/** Throws unless new connections can write; run on one of them. */
export async function requireWritable(query: (text: string) => Promise<{ rows: unknown[] }>): Promise<void> {
  const { rows } = await query("SELECT current_setting('transaction_read_only') AS answer");
  if ((rows[0] as { answer?: unknown } | undefined)?.answer !== 'on') return;
  throw Object.assign(new Error('the database is read-only (transaction_read_only is on)'), { code: '25006' });
}

export function codeOf(error: unknown): string | undefined {
  return (error as { code?: string } | null | undefined)?.code;
}

/** Whatever stops a commit, the caller can only try again. Nothing remains unless the commit's answer was lost. */
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
