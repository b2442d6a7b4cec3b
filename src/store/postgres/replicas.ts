import { StoreUnavailableError } from '../../errors.ts';
import { type Json, parseJson } from '../../model/json.ts';
import { decide } from '../decisions/decision.ts';
import { leaseVerbs, RUNNING, TOKEN } from '../decisions/leases.ts';
import { keepLedgerTime } from '../decisions/ledger-time.ts';
import type { DeadReplica, LostLeases, Replica } from '../store.ts';
import { misfitOf } from './migrate.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const replicaOperations: Operations<'beat' | 'beginHousekeeping' | 'keepTime' | 'listReplicas'> = {
  beat: { purpose: 'write', run: beat },
  beginHousekeeping: { purpose: 'write', run: beginHousekeeping },
  keepTime: { purpose: 'write', run: keepTime },
  listReplicas: { purpose: 'read', run: listReplicas },
};

/** A replica that was not seen for this long is dead: three beats. */
const DEAD_AFTER_MS = 15_000;

/** The only clock that all replicas share. */
const CLOCK = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

interface NamedRow {
  readonly instance: string;
  readonly seenAt: number;
  readonly isSilent: boolean;
}

/** The row with this process' name, whichever process wrote it. */
function findNamed(sql: Sql): Promise<NamedRow | undefined> {
  return sql.get(
    `SELECT instance, seen_at AS "seenAt", seen_at < ${CLOCK} - $2 AS "isSilent" FROM sluice.replicas WHERE name = $1`,
    [sql.replica, DEAD_AFTER_MS],
  );
}

type Joined =
  | { readonly kind: 'joined'; readonly slot: number }
  /** Another process with this name was seen a moment ago, and has not ended. */
  | { readonly kind: 'taken'; readonly seenAt: number };

/**
 * Puts this process on the list and yields the number for its counts, which no other live replica has. It has neither a
 * version nor a fingerprint until its first beat. With the lock of its name it replaces an ended process that had that
 * name; without the lock, one that has been silent for long.
 */
export async function join(sql: Sql, { hasNameLock }: { hasNameLock: boolean }): Promise<Joined> {
  // One after another, so that no two choose the same number.
  await sql.run("SELECT pg_advisory_xact_lock(hashtextextended('sluice replicas of ' || $1, 0))", [sql.schema]);
  const named = await findNamed(sql);
  if (named !== undefined && named.instance !== sql.instance && !named.isSilent && !hasNameLock) {
    return { kind: 'taken', seenAt: named.seenAt };
  }
  const row = await sql.get<{ slot: number }>(
    `INSERT INTO sluice.replicas AS r (name, instance, slot, version, started_at, seen_at, clock_offset_ms, fingerprint)
    SELECT $1, $2, min(free.slot), '', ${CLOCK}, ${CLOCK}, 0, 'null'
    FROM generate_series(0, (SELECT count(*)::integer FROM sluice.replicas)) AS free (slot)
    WHERE free.slot NOT IN (SELECT slot FROM sluice.replicas WHERE name <> $1)
    ON CONFLICT (name) DO UPDATE SET slot = excluded.slot, instance = excluded.instance, seen_at = excluded.seen_at
    RETURNING r.slot`,
    [sql.replica, sql.instance],
  );
  await sql.run('DELETE FROM sluice.dead_replicas WHERE name = $1', [sql.replica]);
  return { kind: 'joined', slot: row?.slot ?? 0 };
}

/** Takes this process off the list: it has stopped and left no leases. */
export async function leave(sql: Sql): Promise<void> {
  await sql.run('DELETE FROM sluice.replicas WHERE name = $1 AND instance = $2', [sql.replica, sql.instance]);
}

/** Two processes with one name would each take the other's steps for their own abandoned ones. */
export class NameTakenError extends StoreUnavailableError {
  constructor(replica: string) {
    const message = `another running process is called ${replica}; give each replica its own SLUICE_REPLICA_NAME`;
    super(message, { isForGood: true });
    this.name = 'NameTakenError';
  }
}

async function beat(
  sql: Sql,
  { version, startedAt, clockOffsetMs, fingerprint, judgesOthers, ledgerAt, lost, now }: Given<'beat'>,
): Promise<Answer<'beat'>> {
  const say = () =>
    sql.get<{ at: number }>(
      `UPDATE sluice.replicas SET version = $3, started_at = $4, seen_at = ${CLOCK}, clock_offset_ms = $5,
        fingerprint = $6
      WHERE name = $1 AND instance = $2 RETURNING seen_at AS "at"`,
      [sql.replica, sql.instance, version, startedAt, Math.round(clockOffsetMs), JSON.stringify(fingerprint)],
    );
  // A live replica that was counted as dead comes back, without its leases, unless another has its name by now. Its
  // connections keep their numbers; if another replica has these too by now, they wait for each other at times.
  const own = (await say()) ?? (await joinAgain(sql).then(say));
  if (lost !== undefined) await returnLost(sql, { ...lost, at: now });
  // If several replicas find the same dead one, one removes it. A row that is being written belongs to a live one.
  const silent = await sql.all<{ name: string; seenAt: number }>(
    `DELETE FROM sluice.replicas WHERE name IN (
      SELECT name FROM sluice.replicas WHERE $2 AND seen_at < ${CLOCK} - $1 FOR UPDATE SKIP LOCKED
    ) RETURNING name, seen_at AS "seenAt"`,
    [DEAD_AFTER_MS, judgesOthers],
  );
  const died: DeadReplica[] = [];
  for (const { name, seenAt: at } of silent)
    died.push({ name, at, steps: await decide(leaseVerbs.recover.decide(sql.port, { owner: name, now })) });
  if (died.length > 0) {
    await freeJobs(sql);
    await remember(sql, died);
  }
  const newest = await sql.get<{ version: number; compatibleFrom: number }>(
    `SELECT version, compatible_from AS "compatibleFrom" FROM sluice.schema_migrations ORDER BY version DESC LIMIT 1`,
  );
  const living = await sql.all<{ name: string; fingerprint: string }>('SELECT name, fingerprint FROM sluice.replicas');
  const told = living.map(({ name, fingerprint }) => ({ name, fingerprint: parseJson(fingerprint) as Json }));
  const dead = await sql.all<DeadReplica>(
    'SELECT name, died_at AS "at", steps FROM sluice.dead_replicas ORDER BY died_at, name',
  );
  // Done late, because other replicas wait for this row.
  const kept = await decide(keepLedgerTime(sql.port, { now, ledgerAt }));
  return { at: own?.at, ledgerAt: kept, replicas: living.length, died, dead, told, misfit: misfitOf(newest) };
}

const REMEMBERED_MS = 86_400_000;

/** Keeps dead replicas so that any replica can report them, and forgets those older than a day. */
async function remember(sql: Sql, died: readonly DeadReplica[]): Promise<void> {
  await sql.run(`DELETE FROM sluice.dead_replicas WHERE died_at < ${CLOCK} - $1`, [REMEMBERED_MS]);
  for (const { name, at, steps } of died) {
    await sql.run(
      `INSERT INTO sluice.dead_replicas AS d (name, died_at, steps) VALUES ($1, $2, $3)
      ON CONFLICT (name) DO UPDATE SET died_at = excluded.died_at, steps = excluded.steps`,
      [name, at, steps],
    );
  }
}

async function keepTime(sql: Sql, time: Given<'keepTime'>): Promise<Answer<'keepTime'>> {
  const ledgerAt = await decide(keepLedgerTime(sql.port, time));
  const row = await sql.get<{ at: number }>(`SELECT ${CLOCK} AS "at"`);
  return { at: row?.at, ledgerAt };
}

/** Returns leases that this process was given without hearing of it. */
async function returnLost(sql: Sql, { leasedBefore, held, at }: LostLeases & { at: number }): Promise<void> {
  const lost = await sql.all<{ token: string }>(
    `SELECT token FROM (SELECT *, ${TOKEN.text} FROM sluice.steps) AS leased
    WHERE (run_id, step_key) IN (${RUNNING}) AND status = 'Running' AND lease_owner = $1 AND due_at <= $2
      AND token <> ALL($3::text[])`,
    [sql.replica, leasedBefore, held],
  );
  const tokens = lost.map(({ token }) => token);
  if (tokens.length > 0) await decide(leaseVerbs.returnLeases.decide(sql.port, { tokens, at }));
}

async function joinAgain(sql: Sql): Promise<void> {
  const named = await findNamed(sql);
  const isTaken = named !== undefined && named.instance !== sql.instance;
  if (isTaken || (await join(sql, { hasNameLock: false })).kind === 'taken') throw new NameTakenError(sql.replica);
}

async function beginHousekeeping(
  sql: Sql,
  { everyMs, now }: Given<'beginHousekeeping'>,
): Promise<Answer<'beginHousekeeping'>> {
  const begun = await sql.run(
    `UPDATE sluice.housekeeping SET began_at = clock_timestamp()
    WHERE began_at <= clock_timestamp() - make_interval(secs => $1::double precision / 1000)`,
    [everyMs],
  );
  if (begun === 0) return false;
  if (await hasJobs(sql)) {
    await freeJobs(sql);
    await wakeForOverdue(sql, now);
  }
  return true;
}

/** Whether the tables of graphile-worker exist, and this role may use them. */
async function hasJobs(sql: Sql): Promise<boolean> {
  const row = await sql.get<{ isThere: boolean }>(
    `SELECT coalesce(has_table_privilege(to_regclass('graphile_worker._private_jobs'), 'UPDATE'), false) AS "isThere"`,
  );
  return row?.isThere === true;
}

/** The replicas missed a step that has been due for this long, or none could run it. */
const OVERDUE_MS = 30_000;

async function wakeForOverdue(sql: Sql, now: number): Promise<void> {
  await sql.run(
    `SELECT graphile_worker.add_job('step', '{"v":1}', job_key => 'overdue')
    WHERE (EXISTS (SELECT FROM sluice.steps WHERE due_at <= $1 AND deaths < 2)
        OR EXISTS (SELECT FROM sluice.steps WHERE due_at <= $1 AND deaths >= 2))
      AND NOT EXISTS (
        SELECT FROM graphile_worker.jobs
        WHERE locked_at IS NULL AND attempts < max_attempts AND run_at < clock_timestamp() - make_interval(secs => $2)
      )`,
    [now - OVERDUE_MS, OVERDUE_MS / 1000],
  );
}

/**
 * No live replica holds a wake-up for this long; a dead one has locked none since its last heartbeat, which was
 * earlier.
 */
const LOCKED_SECONDS = 10;

/**
 * Frees wake-ups that a process took before it died: graphile-worker itself would do so after four hours. Drops
 * replaced ones, which nothing would ever take.
 */
async function freeJobs(sql: Sql): Promise<void> {
  await sql.run(
    `SELECT graphile_worker.force_unlock_workers(ARRAY(
      SELECT DISTINCT locked_by FROM graphile_worker.jobs WHERE locked_at < clock_timestamp() - make_interval(secs => $1)
    ))`,
    [LOCKED_SECONDS],
  );
  await sql.run(
    `SELECT graphile_worker.complete_jobs(ARRAY(
      SELECT id FROM graphile_worker.jobs WHERE locked_at IS NULL AND attempts >= max_attempts
    ))`,
  );
}

async function listReplicas(sql: Sql): Promise<Replica[]> {
  const rows = await sql.all<Omit<Replica, 'fingerprint'> & { fingerprint: string }>(
    `SELECT r.name, r.version, r.started_at AS "startedAt", r.seen_at AS "seenAt",
      r.clock_offset_ms AS "clockOffsetMs", r.fingerprint, coalesce(leased.steps, 0) AS steps
    FROM sluice.replicas r LEFT JOIN (
      SELECT lease_owner, count(*) AS steps FROM sluice.steps
      WHERE (run_id, step_key) IN (${RUNNING}) AND lease_token IS NOT NULL GROUP BY lease_owner
    ) leased ON leased.lease_owner = r.name
    WHERE r.seen_at >= ${CLOCK} - $1 ORDER BY r.name`,
    [DEAD_AFTER_MS],
  );
  return rows.map((row) => ({ ...row, fingerprint: parseJson(row.fingerprint) as Json }));
}
