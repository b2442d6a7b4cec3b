import type { Database } from 'better-sqlite3';
import type { FlowDeploy, FlowRecord, RevisionRecord } from '../store.ts';

interface FlowRow extends Omit<FlowRecord, 'isEnabled' | 'drainingSince'> {
  readonly isEnabled: number;
  readonly drainingSince: number | null;
}

const columns = `id, name, version, revision, is_enabled AS isEnabled, draining_since AS drainingSince,
  created_at AS createdAt, updated_at AS updatedAt`;

export function prepareDeployFlow(db: Database): (deploy: FlowDeploy) => FlowRecord {
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

export function prepareSetFlowEnabled(
  db: Database,
): (change: { flowId: string; isEnabled: boolean; at: number }) => FlowRecord | undefined {
  const find = prepareFindFlow(db);
  const update = db.prepare('UPDATE flows SET is_enabled = ?, updated_at = ? WHERE id = ? AND is_enabled <> ?');
  return ({ flowId, isEnabled, at }) => {
    update.run(Number(isEnabled), at, flowId, Number(isEnabled));
    return find(flowId);
  };
}

export function prepareListFlows(db: Database): () => FlowRecord[] {
  const list = db.prepare<[], FlowRow>(`SELECT ${columns} FROM flows ORDER BY fold(name), id`);
  return () => list.all().map(toFlow);
}

export function prepareFindFlow(db: Database): (flowId: string) => FlowRecord | undefined {
  const find = db.prepare<[string], FlowRow>(`SELECT ${columns} FROM flows WHERE id = ?`);
  return (flowId) => {
    const row = find.get(flowId);
    return row && toFlow(row);
  };
}

export function prepareFindRevision(db: Database): (flowId: string, revision: number) => RevisionRecord | undefined {
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
