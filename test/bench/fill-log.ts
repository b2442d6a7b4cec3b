import Database from 'better-sqlite3';
import { indexAllKeys } from '../../src/store/sqlite/key-index.ts';
import { countRecords } from '../store/count-records.ts';

const DAY_MS = 86_400_000;

export const FLOWS = {
  busy: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
  steady: '1c8f3055-7d2e-4a1f-8b62-40109e2d3b21',
  failing: '2d904166-8e3f-4b20-9c73-5121af3e4c32',
  /** One in fifty thousand. */
  rare: '3ea15277-9f40-4c31-8d84-6232b04f5d43',
} as const;

/** One in two hundred thousand deliveries fails with it; all of these are old. */
export const RARE_REASON = 'sha1_not_allowed';

const id = (kind: string) => `
  printf('%08x-%04x-7%03x-8000-%012x', at / 65536, at % 65536, ${kind}, k)`;
const flow = `
  CASE WHEN k % 50000 = 7 THEN '${FLOWS.rare}' WHEN k % 100 < 60 THEN '${FLOWS.busy}'
    WHEN k % 100 < 90 THEN '${FLOWS.steady}' ELSE '${FLOWS.failing}' END`;
const isRejected = 'k % 10 = 3';
const reason = `
  CASE WHEN k % 200000 = 13 THEN '${RARE_REASON}' WHEN k % 70 < 10 THEN 'ip_not_allowed'
    WHEN k % 70 < 30 THEN 'rate_limited' ELSE 'signature_mismatch' END`;
const status = `
  CASE WHEN k % 100 >= 90 THEN 'Failed' WHEN k % 5000 = 1 THEN 'Running' WHEN k % 500 = 2 THEN 'Cancelled'
    ELSE 'Succeeded' END`;
const headers = `'{"content-type":"application/json","user-agent":"publisher-hooks/1.0","x-event":"order","x-request":"' || hex(randomblob(16)) || '"}'`;
const body = `'{"order":' || k || ',"lines":"' || hex(randomblob(60)) || '"}'`;
const gateResults = `'[["ip","passed",{"address":"192.0.2.7"}],["signature","passed",{"scheme":"GitHub"}]]'`;

/**
 * Fills the database of a stopped service with this many deliveries and runs, each with two steps, attempts and search
 * keys, spread over the last 30 days; ten per cent of the deliveries are rejected. A million take about three minutes
 * and two and a half gigabytes.
 */
export function fillLog(file: string, count: number): void {
  const db = new Database(file);
  db.pragma('synchronous = OFF');
  db.pragma('cache_size = -400000');
  db.function('now_ms', () => Date.now());
  const step = Math.floor((30 * DAY_MS - 60_000) / count);
  const chunk = 100_000;
  for (let from = 0; from < count; from += chunk) {
    const source = `
      WITH RECURSIVE counter (k) AS (SELECT ${from} UNION ALL SELECT k + 1 FROM counter WHERE k + 1 < ${Math.min(from + chunk, count)}),
      rows AS MATERIALIZED (SELECT k, ${Date.now() - count * step} + k * ${step} AS at FROM counter)`;
    db.transaction(() => fillChunk(db, source))();
  }
  countRecords(db);
  standOf(db);
  indexAllKeys(db);
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
}

function fillChunk(db: Database.Database, source: string): void {
  db.exec(`${source} INSERT INTO deliveries (id, flow_id, trigger_key, received_at, client_ip, mode, scheme, rejected,
      enforced, status_code, reason, violations, detail, body_bytes, processing_ms, run_id, used_previous_key, kept_bytes,
      headers, gate_results, body)
    SELECT ${id('1')}, ${flow}, 'hook', at, '192.0.2.' || (k % 250), 'Enforce', 'GitHub', ${isRejected}, ${isRejected},
      iif(${isRejected}, 401, 200), iif(${isRejected}, ${reason}, NULL), iif(${isRejected}, '["' || ${reason} || '"]', '[]'),
      iif(${isRejected}, 'the digest is another one', NULL), 140, 0.7, iif(${isRejected}, NULL, ${id('2')}), 0, 0,
      ${headers}, ${gateResults}, iif(${isRejected}, CAST(${body} AS BLOB), NULL)
    FROM rows`);
  db.exec(`${source} INSERT INTO runs (id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type,
      delivery_id, started_at, completed_at)
    SELECT ${id('2')}, ${flow}, 'orders', '1', 1, ${status}, 'hook', iif(${isRejected}, 'manual', 'webhook'),
      iif(${isRejected}, NULL, ${id('1')}), at, iif(${status} = 'Running', NULL, at + 20 + abs(random()) % 3000)
    FROM rows`);
  db.exec(`${source} INSERT INTO run_inputs (run_id, content_type, headers, body)
    SELECT ${id('2')}, 'application/json', ${headers}, CAST(${body} AS BLOB) FROM rows`);
  const keys = [`'order', 'so-' || k, 'SO-' || k`, `'event', iif(k % 20 = 1, 'orders/cancel', 'orders/create'), NULL`];
  for (const key of keys) {
    db.exec(
      `${source} INSERT INTO run_keys (run_id, name, folded, value) SELECT ${id('2')}, ${key} FROM rows WHERE NOT ${isRejected}`,
    );
    db.exec(
      `${source} INSERT INTO delivery_keys (delivery_id, name, folded, value) SELECT ${id('1')}, ${key} FROM rows WHERE ${isRejected}`,
    );
  }
  for (const key of ['first', 'second']) {
    db.exec(`${source} INSERT INTO steps (run_id, step_key, step_type, status, attempt_count, input, output, started_at,
        completed_at)
      SELECT ${id('2')}, '${key}', 'NoOp', 'Succeeded', 1, '{"of":"${key}"}', '{"done":true}', at, at + 10 FROM rows`);
    db.exec(`${source} INSERT INTO attempts (run_id, step_key, attempt, status, input, output, due_at, started_at,
        completed_at)
      SELECT ${id('2')}, '${key}', 1, 'Succeeded', '{"of":"${key}"}', '{"done":true}', at, at, at + 10 FROM rows`);
  }
}

/** The second step waits in runs in flight, and failed in failed runs. */
function standOf(db: Database.Database): void {
  db.exec(`
    UPDATE steps SET status = 'Failed', output = NULL, error = '{"code":"refused","message":"No.","retryable":false}'
      WHERE step_key = 'second' AND run_id IN (SELECT id FROM runs WHERE status = 'Failed');
    UPDATE steps SET status = 'Pending', output = NULL, completed_at = NULL,
      flow_id = (SELECT flow_id FROM runs WHERE id = run_id), due_at = ${Date.now() + DAY_MS},
      signal_name = iif(rowid % 3 = 0, 'go', NULL), wait = iif(rowid % 3 = 1, NULL, '{"state":1}')
      WHERE step_key = 'second' AND run_id IN (SELECT id FROM runs WHERE status = 'Running')`);
}
