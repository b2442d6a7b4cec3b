import { askedNonce } from '../decisions/accepted-names.ts';
import type { Decision } from '../decisions/decision.ts';
import { listTriggerKeys, otherNames } from '../decisions/nonce-names.ts';
import { type Port, sql } from '../decisions/port.ts';
import { eventDigest, nonceDigest } from '../digest.ts';
import type { AcceptedQuery } from '../store.ts';
import { givenForm } from './arrays.ts';
import type { Row, Sql, SqlValue } from './sql.ts';

/** A row of a table with one row for each name, stored by the first caller. */
export interface NameRow {
  /** Identifies the name: a digest of the text, so that any text fits into the index, or an id. */
  readonly digest: string;
  /** Null if the delivery started no run. */
  readonly run_id: string | null;
}

/** Such a table, with parts of its SQL. */
interface NameTable {
  readonly name: string;
  /** The column that has a row's `digest`. */
  readonly key: string;
  /** The other columns and their types. */
  readonly columns: Readonly<Record<string, string>>;
  /** Another column to read. */
  readonly alsoRead?: string;
  /** Whether a call may keep a name that already has a row, because that row no longer counts. */
  readonly expires?: boolean;
}

const TRIGGER = { flow_id: 'text', trigger_key: 'text' } as const;

const TABLES = {
  redeliveries: {
    name: 'redeliveries',
    key: 'source',
    columns: { run_id: 'uuid', delivery_id: 'uuid' },
  },
  nonces: {
    name: 'nonces',
    key: 'digest',
    columns: {
      ...TRIGGER,
      is_verified: 'boolean',
      header: 'text',
      nonce: 'text',
      alias: 'uuid',
      body_sha256: 'text',
      run_id: 'uuid',
      expires_at: 'bigint',
    },
    alsoRead: 'seq',
    expires: true,
  },
  event_ids: {
    name: 'event_ids',
    key: 'digest',
    columns: { ...TRIGGER, event_id: 'text', run_id: 'uuid', created_at: 'bigint', expires_at: 'bigint' },
    expires: true,
  },
  idempotency_keys: {
    name: 'idempotency_keys',
    key: 'digest',
    columns: { ...TRIGGER, key: 'text', body_sha256: 'text', run_id: 'uuid', created_at: 'bigint' },
  },
} as const satisfies Record<string, NameTable>;

/**
 * In the order of the keys, so that transactions that want the same names never block each other. A row that may expire
 * is locked and stays as it is: each call decides whether it still counts.
 */
function insertOf({ name, key, columns, expires }: NameTable, rows: readonly NameRow[]): [string, SqlValue[]] {
  const names = Object.keys(columns).join(', ');
  const values: SqlValue[] = [];
  const given = rows as readonly (NameRow & Row)[];
  const table = givenForm([given])({ digest: 'uuid', ...columns }, given, (value) => `$${values.push(value)}`);
  const text = `
    INSERT INTO sluice.${name} AS stored (${key}, ${names}) SELECT digest, ${names} FROM ${table} ORDER BY digest
    ON CONFLICT (${key}) ${expires ? 'DO UPDATE SET run_id = stored.run_id WHERE false' : 'DO NOTHING'}
    RETURNING ${key} AS digest`;
  return [text, values];
}

/**
 * The names of one kind that the calls of a transaction ask for. Each is stored at once, for the first call that asks
 * for it, and so reserved against all other transactions. `settle` adapts the rows to the results of the calls.
 */
export class Names<Row extends NameRow> {
  readonly #table: NameTable;
  readonly #stored = new Map<string, Row>();
  readonly #known = new Map<string, Row>();
  readonly #kept = new Set<string>();
  readonly #prolonged = new Map<string, number>();

  constructor(table: keyof typeof TABLES) {
    this.#table = TABLES[table];
  }

  async take(sql: Sql, rows: readonly Row[]): Promise<void> {
    const firsts = new Map<string, Row>();
    for (const row of rows) if (!firsts.has(row.digest)) firsts.set(row.digest, row);
    for (let wanted = [...firsts.values()]; wanted.length > 0; ) {
      const taken = await sql.all<Pick<NameRow, 'digest'>>(...insertOf(this.#table, wanted));
      const digests = new Set(taken.map(({ digest }) => digest));
      for (const row of wanted) if (digests.has(row.digest)) this.#stored.set(row.digest, row);
      const others = wanted.filter(({ digest }) => !digests.has(digest));
      await this.read(
        sql,
        others.map(({ digest }) => digest),
      );
      // Names whose row was deleted in between.
      wanted = others.filter(({ digest }) => !this.#known.has(digest));
    }
  }

  /** Reads the rows of others under these names. */
  async read(sql: Sql, digests: readonly string[]): Promise<void> {
    const others = digests.filter((digest) => !this.#stored.has(digest));
    if (others.length === 0) return;
    const { name, key, columns, alsoRead } = this.#table;
    const names = [...Object.keys(columns), ...(alsoRead === undefined ? [] : [alsoRead])];
    const rows = await sql.all<Row>(
      `SELECT ${key} AS digest, ${names.join(', ')} FROM sluice.${name} WHERE ${key} = ANY($1)`,
      [others],
    );
    for (const row of rows) this.#known.set(row.digest, row);
  }

  /** A row that another transaction has stored, or that an earlier call of this one has kept. */
  find(digest: string): Row | undefined {
    return this.#known.get(digest);
  }

  keep(row: Row): void {
    this.#known.set(row.digest, row);
    this.#kept.add(row.digest);
  }

  /** Lets a row of another transaction live on: it keeps its number, by which it counts for later triggers. */
  prolong(row: Row, until: number): void {
    this.#known.set(row.digest, { ...row, expires_at: until });
    if (!this.#kept.has(row.digest)) this.#prolonged.set(row.digest, until);
  }

  /** Deletes names that no call has kept, and writes kept rows again that changed since they were stored. */
  settle(sql: Sql): void {
    const kept = [...this.#kept].flatMap((digest) => this.#known.get(digest) ?? []);
    const changed = kept.filter((row) => this.#stored.get(row.digest) !== row);
    const unused = [...this.#stored.keys()].filter((digest) => !this.#kept.has(digest));
    const gone = [...unused, ...changed.map(({ digest }) => digest)];
    const { name, key } = this.#table;
    if (this.#prolonged.size > 0) {
      sql.later(
        `UPDATE sluice.${name} AS stored SET expires_at = given.until
        FROM unnest($1::uuid[], $2::bigint[]) AS given (digest, until) WHERE stored.${key} = given.digest`,
        [[...this.#prolonged.keys()], [...this.#prolonged.values()]],
      );
    }
    if (gone.length === 0) return;
    sql.later(`DELETE FROM sluice.${name} WHERE ${key} = ANY($1)`, [gone]);
    if (changed.length > 0) sql.later(...insertOf(this.#table, changed));
  }
}

/** Finds names by the digests of their indexes. */
export function* areAccepted(port: Port, { names, ...query }: AcceptedQuery): Decision<readonly boolean[]> {
  const { flowId, triggerKey, at } = query;
  const [keys = []] = yield* listTriggerKeys(port, [{ flowId, triggerKey }]);
  const digests = names.map((name) => {
    const { eventId } = name;
    const events =
      eventId === undefined ? [] : keys.map((key) => ({ digest: eventDigest(key, eventId), reusedAt: key.reusedAt }));
    const asked = askedNonce(query, name);
    const others = asked === undefined ? [] : otherNames(asked, keys).filter(({ nonce }) => nonce !== null);
    const own = asked === undefined ? [] : [{ digest: nonceDigest(query, asked.nonce), lastSeq: null }];
    return { events, nonces: [...own, ...others] };
  });
  const events = yield* port.all<{ digest: string; createdAt: number }>(sql`
    SELECT digest, created_at AS "createdAt" FROM sluice.event_ids
    WHERE digest = ANY (${digests.flatMap((each) => each.events.map(({ digest }) => digest))}::uuid[]) AND expires_at > ${at}`);
  const nonces = yield* port.all<{ digest: string; seq: number }>(sql`
    SELECT digest, seq FROM sluice.nonces
    WHERE digest = ANY (${digests.flatMap((each) => each.nonces.map(({ digest }) => digest))}::uuid[]) AND expires_at > ${at}`);
  const createdAt = new Map(events.map((row) => [row.digest, row.createdAt]));
  const seqs = new Map(nonces.map((row) => [row.digest, row.seq]));
  return digests.map(
    (each) =>
      each.events.some(({ digest, reusedAt }) => {
        const at = createdAt.get(digest);
        return at !== undefined && (reusedAt === null || at < reusedAt);
      }) ||
      each.nonces.some(({ digest, lastSeq }) => {
        const seq = seqs.get(digest);
        return seq !== undefined && (lastSeq === null || seq <= lastSeq);
      }),
  );
}
