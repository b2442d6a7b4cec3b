import type { Database } from 'better-sqlite3';
import type { FlowRecord, LearnedKey, RevisionRecord, ScheduleRecord } from '../store.ts';
import { prepareInsertRun, prepareMayStart, type RunValues } from './acceptance.ts';
import type { Member } from './messages.ts';

export const flowOperations = {
  deployFlow: { thread: 'writer', prepare: prepareDeployFlow },
  setFlowEnabled: { thread: 'writer', prepare: prepareSetFlowEnabled },
  listFlows: { thread: 'reader', prepare: prepareListFlows },
  findFlow: { thread: 'reader', prepare: prepareFindFlow },
  findRevision: { thread: 'reader', prepare: prepareFindRevision },
  listSchedules: { thread: 'reader', prepare: prepareListSchedules },
  changeSchedule: { thread: 'writer', prepare: prepareChangeSchedule },
  fireSchedule: { thread: 'writer', prepare: prepareFireSchedule },
  learnKey: { thread: 'writer', prepare: prepareLearnKey },
  listLearnedKeys: { thread: 'reader', prepare: prepareListLearnedKeys },
  forgetKey: { thread: 'writer', prepare: prepareForgetKey },
} as const;

interface FlowRow extends Omit<FlowRecord, 'isEnabled' | 'drainingSince'> {
  readonly isEnabled: number;
  readonly drainingSince: number | null;
}

const columns = `id, name, version, revision, is_enabled AS isEnabled, draining_since AS drainingSince,
  created_at AS createdAt, updated_at AS updatedAt`;

function prepareDeployFlow(db: Database): Member<'deployFlow'> {
  const find = prepareFindFlow(db);
  const newestHash = db.prepare<[string, number], { hash: string }>(
    'SELECT hash FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  const insertRevision = db.prepare(
    'INSERT INTO revisions (flow_id, revision, version, hash, snapshot, created_at) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const upsertFlow = db.prepare<unknown[], FlowRow>(`
    INSERT INTO flows (id, name, version, revision, is_enabled, created_at, updated_at) VALUES (?, ?, ?, ?, 1, ?, ?)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, revision = excluded.revision,
      updated_at = excluded.updated_at
    RETURNING ${columns}`);

  return ({ id, name, version, hash, snapshot, at }) => {
    const deployed = find(id);
    if (deployed !== undefined && newestHash.get(id, deployed.revision)?.hash === hash) return deployed;
    const revision = (deployed?.revision ?? 0) + 1;
    insertRevision.run(id, revision, version, hash, JSON.stringify(snapshot), at);
    const [row] = upsertFlow.all(id, name, version, revision, at, at);
    if (row === undefined) throw new Error(`The flow ${id} was not stored.`);
    return toFlow(row);
  };
}

function prepareSetFlowEnabled(db: Database): Member<'setFlowEnabled'> {
  const find = prepareFindFlow(db);
  const update = db.prepare('UPDATE flows SET is_enabled = ?, updated_at = ? WHERE id = ? AND is_enabled <> ?');
  return ({ flowId, isEnabled, at }) => {
    update.run(Number(isEnabled), at, flowId, Number(isEnabled));
    return find(flowId);
  };
}

function prepareListFlows(db: Database): Member<'listFlows'> {
  const list = db.prepare<[], FlowRow>(`SELECT ${columns} FROM flows ORDER BY fold(name), id`);
  return () => list.all().map(toFlow);
}

export function prepareFindFlow(db: Database): Member<'findFlow'> {
  const find = db.prepare<[string], FlowRow>(`SELECT ${columns} FROM flows WHERE id = ?`);
  return (flowId) => {
    const row = find.get(flowId);
    return row && toFlow(row);
  };
}

function prepareFindRevision(db: Database): Member<'findRevision'> {
  const find = db.prepare<[string, number], Omit<RevisionRecord, 'snapshot'> & { readonly snapshot: string }>(`
    SELECT flow_id AS flowId, revision, version, hash, snapshot, created_at AS createdAt, source
    FROM revisions WHERE flow_id = ? AND revision = ?`);
  return (flowId, revision) => {
    const row = find.get(flowId, revision);
    return row && { ...row, snapshot: JSON.parse(row.snapshot) };
  };
}

function toFlow({ isEnabled, drainingSince, ...row }: FlowRow): FlowRecord {
  return { ...row, isEnabled: isEnabled === 1, ...(drainingSince === null ? {} : { drainingSince }) };
}

interface ScheduleRow extends Omit<ScheduleRecord, 'isPaused'> {
  readonly isPaused: number;
}

function prepareListSchedules(db: Database): Member<'listSchedules'> {
  const list = db.prepare<[], ScheduleRow>(`
    SELECT flow_id AS flowId, trigger_key AS triggerKey, cron, time_zone AS timeZone, cron_override AS cronOverride,
      paused AS isPaused, next_at AS nextAt, last_at AS lastAt, revision
    FROM flow_schedules ORDER BY flow_id, trigger_key`);
  return () => list.all().map((row) => ({ ...row, isPaused: row.isPaused === 1 }));
}

function prepareChangeSchedule(db: Database): Member<'changeSchedule'> {
  const insert = db.prepare<unknown[]>(`
    INSERT INTO flow_schedules (cron, time_zone, cron_override, paused, next_at, last_at, flow_id, trigger_key, revision)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO NOTHING`);
  const update = db.prepare<unknown[]>(`
    UPDATE flow_schedules
    SET cron = ?, time_zone = ?, cron_override = ?, paused = ?, next_at = ?, last_at = ?, revision = revision + 1
    WHERE flow_id = ? AND trigger_key = ? AND revision = ?`);
  return (schedule) => {
    const { flowId, triggerKey, cron, timeZone, cronOverride, isPaused, nextAt, lastAt, revision } = schedule;
    const state = [cron, timeZone, cronOverride, Number(isPaused), nextAt, lastAt, flowId, triggerKey];
    const { changes } = revision === 0 ? insert.run(state) : update.run(state, revision);
    return changes === 0 ? undefined : { ...schedule, revision: revision + 1 };
  };
}

/** A tick whose run is sent as the values of its row, without its body. */
interface SentTick extends Omit<Parameters<Member<'fireSchedule'>>[0], 'run'> {
  readonly run: RunValues | null;
}

function prepareFireSchedule(db: Database): (tick: SentTick, body: Uint8Array) => ReturnType<Member<'fireSchedule'>> {
  const mayStart = prepareMayStart(db);
  const move = db.prepare(`
    UPDATE flow_schedules SET next_at = ?, last_at = CASE WHEN ? THEN ? ELSE last_at END, revision = revision + 1
    WHERE flow_id = ? AND trigger_key = ? AND next_at = ? AND paused = 0`);
  const insertRun = prepareInsertRun(db);
  return ({ flowId, triggerKey, dueAt, nextAt, run, at }, body) => {
    if (run !== null && !mayStart(run)) return 'outdated';
    const isMoved = move.run(nextAt, Number(run !== null), at, flowId, triggerKey, dueAt).changes > 0;
    if (isMoved && run !== null) insertRun(run, null, body);
    return isMoved ? 'fired' : 'passed';
  };
}

interface LearnedKeyRow extends Omit<LearnedKey, 'sealedWith'> {
  readonly secret: Buffer;
  readonly sealedWith: string | null;
}

const keyColumns =
  'flow_id AS flowId, trigger_key AS triggerKey, scheme, secret, sealed_with AS sealedWith, learned_at AS learnedAt';

/** The key of a trigger, and its keys before deploys renamed it. */
const OWN_OR_FORMER = `flow_id = :flowId AND (trigger_key = :triggerKey OR trigger_key IN (
  SELECT former_key FROM former_trigger_keys
  WHERE flow_id = :flowId AND trigger_key = :triggerKey AND last_seq IS NULL))`;

/**
 * Stores only the first key. After a rename it yields the former key, so that a stranger's handshake cannot be first.
 */
function prepareLearnKey(db: Database): Member<'learnKey'> {
  const insert = db.prepare(`
    INSERT INTO learned_keys (flow_id, trigger_key, scheme, secret, sealed_with, learned_at) VALUES (?, ?, ?, ?, ?, ?)`);
  const find = db.prepare<[{ flowId: string; triggerKey: string }], LearnedKeyRow>(
    `SELECT ${keyColumns} FROM learned_keys WHERE ${OWN_OR_FORMER} ORDER BY trigger_key = :triggerKey DESC, learned_at LIMIT 1`,
  );
  return ({ flowId, triggerKey, scheme, secret, sealedWith, learnedAt }) => {
    const known = find.get({ flowId, triggerKey });
    if (known !== undefined) return toKey(known);
    insert.run(flowId, triggerKey, scheme, secret, sealedWith ?? null, learnedAt);
    const row = find.get({ flowId, triggerKey });
    if (row === undefined) throw new Error(`The key of ${triggerKey} was not stored.`);
    return toKey(row);
  };
}

function prepareListLearnedKeys(db: Database): Member<'listLearnedKeys'> {
  const list = db.prepare<[], LearnedKeyRow>(`SELECT ${keyColumns} FROM learned_keys`);
  return () => list.all().map(toKey);
}

function prepareForgetKey(db: Database): Member<'forgetKey'> {
  const forget = db.prepare<[{ flowId: string; triggerKey: string }]>(
    `DELETE FROM learned_keys WHERE ${OWN_OR_FORMER}`,
  );
  return ({ flowId, triggerKey }) => forget.run({ flowId, triggerKey }).changes > 0;
}

function toKey({ sealedWith, secret, ...row }: LearnedKeyRow): LearnedKey {
  const key = { ...row, secret: new Uint8Array(secret) };
  return sealedWith === null ? key : { ...key, sealedWith };
}
