import { randomUUID } from 'node:crypto';

/** Notices between processes about runs; `by` names the sender. */
export type RunNotice =
  | { readonly kind: 'watch'; readonly by: string }
  | { readonly kind: 'runs'; readonly by: string; readonly runIds: readonly string[] };

/** Each notice takes a lock of the whole server when it is sent, so events share notices. */
const TELL_EVERY_MS = 100;
/** A notice has less than 8000 bytes: PostgreSQL's manual, `NOTIFY`. */
const MOST_RUN_IDS = 180;
/** A watching process says so this often; without word of one for longer than two intervals, nothing is sent. */
const WATCH_EVERY_MS = 5000;
const WATCHED_MS = 12_000;

/**
 * Notifies other processes of runs that changed here, while one of them has a page open. A lost notice becomes visible
 * when the page reloads.
 */
export class RunNotices {
  readonly #by = randomUUID();
  readonly #send: (notice: RunNotice) => void;
  #watchedUntil = Number.NEGATIVE_INFINITY;
  #changed = new Set<string>();
  #telling: NodeJS.Timeout | undefined;
  #watching: NodeJS.Timeout | undefined;

  constructor(send: (notice: RunNotice) => void) {
    this.#send = send;
  }

  /** Yields the runs in a notice; none if it contains none or was sent by this process. */
  heard(notice: RunNotice): readonly string[] | undefined {
    if (notice.by === this.#by) return undefined;
    if (notice.kind === 'runs') return notice.runIds;
    this.#watchedUntil = performance.now() + WATCHED_MS;
    return undefined;
  }

  changed(runId: string): void {
    if (performance.now() > this.#watchedUntil) return;
    this.#changed.add(runId);
    this.#telling ??= setTimeout(() => this.#tell(), TELL_EVERY_MS).unref();
  }

  watch(isWatching: boolean): void {
    clearInterval(this.#watching);
    if (!isWatching) return;
    const say = () => this.#send({ kind: 'watch', by: this.#by });
    this.#watching = setInterval(say, WATCH_EVERY_MS).unref();
    say();
  }

  close(): void {
    clearInterval(this.#watching);
    clearTimeout(this.#telling);
  }

  #tell(): void {
    this.#telling = undefined;
    const runIds = this.#changed.size > MOST_RUN_IDS ? [] : [...this.#changed];
    this.#changed = new Set();
    this.#send({ kind: 'runs', by: this.#by, runIds });
  }
}
