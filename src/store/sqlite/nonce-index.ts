import type { Database, Statement } from 'better-sqlite3';
import type { Job, Settled } from './batch.ts';
import { prepareKeyIndexing } from './key-index.ts';

/** The hash space is indexed in this many parts, one after the other; a part fits into a few pages. */
const buckets = 1024;
const hashBits = 48;
const bucketSize = 2 ** hashBits / buckets;

/**
 * The part of all live names that waits in memory before it is indexed, so that each page of the index, with 200 names,
 * takes several at once. With ten million nonces a delivery writes 0.3 pages of it then; if always 65 536 wait, 1.0.
 */
const TAIL_PART = 1 / 32;
/** Bounds of their number; a name takes 58 bytes. */
const TAIL_SIZES = { least: 65_536, most: 262_144 } as const;

/** The subject of such an index: a table, whose rows have a `hash`, and the tables of the index itself. */
const NONCES = {
  rows: 'nonces',
  alias: 'alias',
  index: 'nonce_index',
  // A former trigger's nonces count up to these numbers, whether or not they still exist.
  named: '(SELECT coalesce(max(last_seq), 0) FROM former_trigger_keys)',
} as const;
const EVENTS = { rows: 'event_ids', alias: 'NULL', index: 'event_id_index', named: '0' } as const;
type Indexed = typeof NONCES | typeof EVENTS;

/** How many entries of one hash are read at once. */
const FOUND = 16;

interface Round {
  /** The newest row that this round indexes. */
  readonly lastSeq: number;
  /** Rows before this one are purged, and this round clears them out; undefined if it leaves them. */
  readonly clearsBelow: number | undefined;
  /** The first bucket that is not done. */
  bucket: number;
  /** How many entries this round should have indexed by now but has not; below 0 if it is ahead. */
  owed: number;
}

/**
 * A round removes purged entries once they reach this fraction of the live ones, because removing reads the whole
 * index: with ten million nonces, 150 entries for each one that it adds.
 */
const CLEARED_PART = 1 / 4;

/** One batch's share of indexing: `run` inside the transaction, `committed` when that is durable. */
interface IndexStep {
  run(): void;
  committed(): void;
}

/**
 * Finds the rows of a nonce or an event id by its hash, without touching a random page for each acceptance.
 *
 * Nonces are random, so a plain index of them dirties a page of its own for every new row: with one an acceptance cost
 * 76 µs, without any 47, with this 54. Rows are only appended; the newest are found in memory, and once there are
 * enough they enter the index in the order of their hashes, a few pages with each batch.
 *
 * It yields hints: the caller compares the row itself. So a row that was rolled back or purged, or has the same hash by
 * chance, does no harm; only a missing row would. Each row is either newer than `indexed_to`, and then read into memory
 * at the start or kept there from its insertion on, or it is in the index, which grows in the same transaction as
 * `indexed_to`.
 */
export class NonceIndex {
  /** Rows by hash; a list only for a hash of several rows, which is rare, because a list takes as much as all else. */
  readonly #tail: Map<number, number | number[]>[] = [];
  readonly #least: number;
  readonly #readIndex: Statement<[hash: number, before: number], number>;
  readonly #rounds: () => ReturnType<typeof prepareRounds>;
  #held = 0;
  #lastSeq: number;
  /** Rows before this one are no longer in the index; it is not known what an earlier process cleared out. */
  #clearedBelow = 0;
  /** Hashes of the rows that the present batch has added, from `firstAdded` on. */
  #added: number[] = [];
  #firstAdded = 0;
  #round: Round | undefined;

  constructor(db: Database, of: Indexed, least: number) {
    this.#least = least;
    const { indexedTo, lastSeq } = readState(db, of);
    this.#lastSeq = lastSeq;
    const tail = db.prepare<[number], { hash: number; alias: string | null; seq: number }>(
      `SELECT hash, ${of.alias} AS alias, seq FROM ${of.rows} WHERE seq > ?`,
    );
    for (const { hash, alias, seq } of tail.iterate(indexedTo)) {
      this.#hold(hash, seq);
      if (alias !== null) this.#hold(hashOfDigest(alias), seq);
    }
    // The plus keeps SQLite from preparing the statement again for each value, which takes ten times as long.
    this.#readIndex = db
      .prepare<[number, number], number>(
        `SELECT seq FROM ${of.index} WHERE hash = +? AND seq < ? ORDER BY seq DESC LIMIT ${FOUND}`,
      )
      .pluck();
    let rounds: ReturnType<typeof prepareRounds> | undefined;
    this.#rounds = () => {
      rounds ??= prepareRounds(db, of);
      return rounds;
    };
  }

  /** The number of a new row, which can be found from now on. A number that anything names is never given again. */
  add(...hashes: readonly number[]): number {
    this.#lastSeq += 1;
    for (const hash of hashes) {
      this.#hold(hash, this.#lastSeq);
      this.#added.push(hash);
    }
    return this.#lastSeq;
  }

  /** Numbers of rows that may have this nonce, the newest first: a sender of equal bytes often has many of them. */
  *find(nonceHash: number): Generator<number> {
    const recent = this.#recent(nonceHash);
    for (let place = recent.length - 1; place >= 0; place -= 1) yield recent[place] ?? 0;
    for (let before = Number.MAX_SAFE_INTEGER; ; ) {
      const found = this.#readIndex.all(nonceHash, before);
      yield* found;
      if (found.length < FOUND) return;
      before = found.at(-1) ?? 0;
    }
  }

  /** Starts a batch; yields the indexing to do as its last call, if there is any. */
  begin(): IndexStep | undefined {
    this.#added = [];
    this.#firstAdded = this.#lastSeq + 1;
    this.#round ??= this.#startRound();
    const round = this.#round;
    if (round === undefined) return undefined;
    let next = round.bucket;
    return {
      run: () => {
        // One more than were added, so that the round ends.
        round.owed += this.#added.length + 1;
        next = this.#index(round);
      },
      committed: () => this.#forget(round, next),
    };
  }

  /** Call if the batch was not stored. Keeps a disk that stays full from filling the memory too. */
  rolledBack(): void {
    const first = this.#firstAdded;
    for (const nonceHash of new Set(this.#added)) this.#drop(bucketOf(nonceHash), nonceHash, (seq) => seq >= first);
    this.#added = [];
  }

  /** Starts a round once enough names wait in memory. It keeps pace with new names, so that batches are alike. */
  #startRound(): Round | undefined {
    if (this.#held < this.#least) return undefined;
    const oldest = this.#rounds().readOldest.get() ?? undefined;
    const alive = oldest === undefined ? 0 : this.#lastSeq - oldest + 1;
    if (this.#held < Math.min(alive * TAIL_PART, TAIL_SIZES.most)) return undefined;
    const isClearing = oldest !== undefined && oldest - this.#clearedBelow >= alive * CLEARED_PART;
    return { lastSeq: this.#lastSeq, clearsBelow: isClearing ? oldest : undefined, bucket: 0, owed: 0 };
  }

  /** Indexes whole buckets until it owes nothing; yields the first unfinished bucket. */
  #index(round: Round): number {
    let { bucket } = round;
    for (; bucket < buckets && round.owed > 0; bucket += 1) {
      round.owed -= this.#rounds().write(bucket, this.#entriesOf(bucket, round.lastSeq), round.clearsBelow);
    }
    if (bucket === buckets) this.#rounds().finish.run(round.lastSeq);
    return bucket;
  }

  #forget(round: Round, next: number): void {
    for (; round.bucket < next; round.bucket += 1) {
      const hashes = this.#tail[round.bucket]?.keys() ?? [];
      for (const nonceHash of hashes) this.#drop(round.bucket, nonceHash, (seq) => seq <= round.lastSeq);
    }
    if (round.bucket < buckets) return;
    this.#clearedBelow = round.clearsBelow ?? this.#clearedBelow;
    this.#round = undefined;
  }

  /** Rows of this hash that wait in memory, the oldest first. */
  #recent(nonceHash: number): readonly number[] {
    const found = this.#tail[bucketOf(nonceHash)]?.get(nonceHash) ?? [];
    return typeof found === 'number' ? [found] : found;
  }

  #drop(bucket: number, nonceHash: number, isGone: (seq: number) => boolean): void {
    const seqs = this.#recent(nonceHash);
    const left = seqs.filter((seq) => !isGone(seq));
    this.#held -= seqs.length - left.length;
    if (left.length > 0) this.#tail[bucket]?.set(nonceHash, left);
    else this.#tail[bucket]?.delete(nonceHash);
  }

  #entriesOf(bucket: number, lastSeq: number): [hash: number, seq: number][] {
    const entries: [number, number][] = [];
    for (const nonceHash of this.#tail[bucket]?.keys() ?? []) {
      for (const seq of this.#recent(nonceHash)) if (seq <= lastSeq) entries.push([nonceHash, seq]);
    }
    return entries.sort(([a], [b]) => a - b);
  }

  #hold(nonceHash: number, seq: number): void {
    this.#tail[bucketOf(nonceHash)] ??= new Map();
    const tail = this.#tail[bucketOf(nonceHash)];
    const held = tail?.get(nonceHash);
    if (held === undefined) tail?.set(nonceHash, seq);
    else if (typeof held === 'number') tail?.set(nonceHash, [held, seq]);
    else held.push(seq);
    this.#held += 1;
  }
}

/**
 * Reads the whole indexes of nonces and event ids, a part with each step, so that the system caches them: otherwise
 * each new nonce would wait for the disk after a restart of the machine, in the writer's thread. Yields the number of
 * entries read. With ten million nonces it reads 250 MB in 1024 steps; SQLite's own cache of the connection that `open`
 * yields must be small. An index of fewer nonces than `least` is in the system's cache after a few look-ups anyway.
 */
export function* warmIndexes(db: Database, open: () => Database, least = 100_000): Generator<number, void> {
  for (const { rows: table, index } of [NONCES, EVENTS]) {
    // Both in one SELECT would read every row.
    const span = `(SELECT max(seq) FROM ${table}) - (SELECT min(seq) FROM ${table})`;
    const rows = db.prepare<[], number>(`SELECT coalesce(${span}, 0)`).pluck().get() ?? 0;
    if (rows < least) continue;
    const read = open()
      .prepare<[number, number], number>(`SELECT count(*) FROM ${index} WHERE hash >= ? AND hash < ?`)
      .pluck();
    for (let bucket = 0; bucket < buckets; bucket += 1) {
      yield read.get(bucket * bucketSize, (bucket + 1) * bucketSize) ?? 0;
    }
  }
}

/** A number that SQLite stores in six bytes, from a cryptographic digest: attackers cannot fill a single bucket. */
export function hashOfDigest(digest: string): number {
  return Number.parseInt(digest.slice(0, 8) + digest.slice(9, 13), 16);
}

function bucketOf(nonceHash: number): number {
  return Math.floor(nonceHash / bucketSize);
}

function readState(db: Database, { rows, index, named }: Indexed): { indexedTo: number; lastSeq: number } {
  const find = db.prepare<[], { indexedTo: number; lastSeq: number }>(`
    SELECT indexed_to AS indexedTo, max(indexed_to, (SELECT coalesce(max(seq), 0) FROM ${rows}), ${named}) AS lastSeq
    FROM ${index}_state`);
  return find.get() ?? { indexedTo: 0, lastSeq: 0 };
}

/** The statements of rounds, prepared with the first round so that no start waits for them. */
function prepareRounds(db: Database, { rows, index }: Indexed) {
  const insert = db.prepare(`INSERT OR IGNORE INTO ${index} (hash, seq) VALUES (?, ?)`);
  const clear = db.prepare(`DELETE FROM ${index} WHERE hash >= ? AND hash < ? AND seq < ?`);
  return {
    readOldest: db.prepare<[], number | null>(`SELECT min(seq) FROM ${rows}`).pluck(),
    finish: db.prepare(`UPDATE ${index}_state SET indexed_to = ?`),
    /** Puts entries into a bucket of the index and clears purged ones out, on the same pages. */
    write(bucket: number, entries: readonly [hash: number, seq: number][], clearsBelow: number | undefined): number {
      if (clearsBelow !== undefined) clear.run(bucket * bucketSize, (bucket + 1) * bucketSize, clearsBelow);
      for (const [nonceHash, seq] of entries) insert.run(nonceHash, seq);
      return entries.length;
    },
  };
}

/** The indexes of nonces and of event ids. */
export interface NameIndexes {
  readonly nonces: NonceIndex;
  readonly events: NonceIndex;
}

/** `least` names wait in memory before an index takes them. */
export function openIndexes(db: Database, least: number = TAIL_SIZES.least): NameIndexes {
  return { nonces: new NonceIndex(db, NONCES, least), events: new NonceIndex(db, EVENTS, least) };
}

/** Gives each batch its share of the indexing of names and search keys, and tells name indexes how it ended. */
export function withIndexing(
  db: Database,
  runBatch: (jobs: readonly Job[]) => Settled[],
  { nonces, events }: NameIndexes,
): typeof runBatch {
  const keyIndexing = prepareKeyIndexing(db);
  return (jobs) => {
    const keys = keyIndexing(jobs.length);
    const given = keys === undefined ? [...jobs] : [...jobs, keys];
    const steps = [nonces, events].map((index) => {
      const step = index.begin();
      return { index, step, at: step === undefined ? undefined : given.push(step.run) - 1 };
    });
    const settled = runBatch(given);
    const isLost = settled.every(({ isFulfilled }) => !isFulfilled);
    for (const { index, step, at } of steps) {
      if (isLost) index.rolledBack();
      else if (at !== undefined && settled.at(at)?.isFulfilled) step?.committed();
    }
    return settled.slice(0, jobs.length);
  };
}
