import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Database } from 'better-sqlite3';
import { createIdSource } from '../../src/model/ids.ts';
import { holderOf, SOLE_OWNER, tokenOf } from '../../src/model/runtime-keys.ts';
import { prepareAcceptanceRows } from '../../src/store/sqlite/acceptance.ts';
import { type Job, prepareBatch } from '../../src/store/sqlite/batch.ts';
import { openWriter, PAGE_BYTES } from '../../src/store/sqlite/connection.ts';
import { keepLogBounded } from '../../src/store/sqlite/deliveries.ts';
import { openIndexes, withIndexing } from '../../src/store/sqlite/nonce-index.ts';
import { operations, prepareRuns } from '../../src/store/sqlite/operations.ts';
import { sentAcceptance } from '../../src/store/sqlite/sent-acceptance.ts';
import type { Acceptance } from '../../src/store/store.ts';
import { aDelivery, aRun, deployOf, graphOf } from '../store/samples.ts';

/**
 * Prints what SQLite spends on an accepted delivery with its run of one step: statements, pages that commits write to
 * the log, bytes that remain in the file, and CPU of the writer. All in this thread, so that the counts are exact. A
 * commit has some acceptances and the outcomes of the previous commit's steps. Delivery ids are random, like GitHub's.
 */
const { values } = parseArgs({
  options: {
    deliveries: { type: 'string', default: '20000' },
    /** Acceptances that share a commit. */
    batch: { type: 'string', default: '14' },
    /** Bytes of a body. */
    body: { type: 'string', default: '2048' },
    /** Serialize runs by key, with as many keys as deliveries. */
    order: { type: 'boolean', default: false },
    /** Also print the bytes of each table and index, and how often each statement ran. */
    detail: { type: 'boolean', default: false },
  },
});
const size = Number(values.batch);
const commits = Math.ceil(Number(values.deliveries) / size);
const deliveries = commits * size;
const each = (value: number, digits: number) => (value / deliveries).toFixed(digits);

const DAY_MS = 86_400_000;
const RESTART_FRAMES = (16 * 1024 * 1024) / PAGE_BYTES;
const [WAL_HEADER, FRAME_HEADER] = [32, 24];
const FRAME = FRAME_HEADER + PAGE_BYTES;
const UNBOUNDED = { maxRows: Number.POSITIVE_INFINITY, maxBytes: Number.POSITIVE_INFINITY };
const holder = holderOf(SOLE_OWNER, `${randomBytes(9).toString('base64url')}-1000`);
let now = Date.now();
const newId = createIdSource(() => now);

const notConfigured = (gate: string) => ({ gate, outcome: 'not configured', reason: null, detail: null, facts: {} });
const passed = (gate: string, facts: object) => ({ gate, outcome: 'passed', reason: null, detail: null, facts });

function acceptanceOf(guid: string): Acceptance {
  const padding = randomBytes(Number(values.body) >> 1).toString('hex');
  const body = Buffer.from(`{"ref":"refs/heads/main","padding":"${padding}"}`.slice(0, Number(values.body)));
  const sha256 = createHash('sha256').update(body).digest('hex');
  const headers = {
    host: 'hooks.example.com',
    accept: '*/*',
    'content-type': 'application/json',
    'content-length': String(body.byteLength),
    'user-agent': 'GitHub-Hookshot/044aadd',
    'x-github-hook-id': '292430182',
    'x-github-event': 'push',
    'x-github-hook-installation-target-type': 'repository',
    'x-github-hook-installation-target-id': '79929171',
    'x-github-delivery': guid,
    'x-hub-signature': `sha1=${sha256.slice(0, 40)}`,
    'x-hub-signature-256': `sha256=${sha256}`,
  };
  const expiresAt = now + DAY_MS;
  const gateResults = [
    notConfigured('ip'),
    notConfigured('rateLimit'),
    passed('signature', { scheme: 'GitHub', isTrusted: true, usedPreviousKey: false }),
    passed('replay', { nonce: guid, nonceExpiresAt: new Date(expiresAt).toISOString() }),
  ] as Acceptance['delivery'] extends { gateResults?: infer Results } | undefined ? Results : never;
  const delivery = aDelivery({ id: newId(), receivedAt: now, bodyBytes: body.byteLength, headers, gateResults });
  const run = aRun({
    id: newId(),
    deliveryId: delivery.id,
    startedAt: now,
    trigger: { key: 'github', contentType: 'application/json', headers, body },
    steps: [{ stepKey: 'only', stepType: 'NoOp', dueAt: now }],
    searchKeys: { event: 'push', id: guid },
    ...(values.order && { order: { key: guid, problem: null, isTrusted: true } }),
  });
  const nonce = {
    header: 'x-github-delivery',
    value: guid,
    digest: sha256,
    bodySha256: sha256,
    arrivedAt: now,
    expiresAt,
    isTrusted: true,
    isAsked: true,
    isEnforced: true,
  };
  return { delivery: { ...delivery, runId: run.id }, nonce, verifiedBy: 'd24dfe82', run };
}

/** A new database with its writer; calls `count` with each statement and its duration. */
function openRows(count?: (text: string, micros: number) => void) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-rows-'));
  const file = join(folder, 'rows.db');
  const { db, close } = openWriter(file);
  if (count !== undefined) tellStatements(db, count);
  const indexes = openIndexes(db);
  const state = { indexes, rows: prepareAcceptanceRows(db, indexes), held: UNBOUNDED };
  const runs = prepareRuns((name) => {
    const operation = operations[name];
    if (operation.thread === 'reader') return undefined;
    return operation.prepare(db, state) as (...args: never[]) => unknown;
  });
  keepLogBounded(db, { inMemory: false, ...UNBOUNDED });
  const runBatch = withIndexing(db, prepareBatch(db, 'BEGIN IMMEDIATE'), indexes);
  return {
    db,
    bytes: () => statSync(file).size,
    log: () => readFileSync(`${file}-wal`),
    /** Runs calls in one transaction; returns their CPU microseconds. */
    commit(calls: readonly (readonly [name: keyof typeof operations, ...args: unknown[]])[]): number {
      const jobs = calls.map(
        ([name, ...args]): Job =>
          () =>
            (runs[name] as (...given: unknown[]) => unknown)(...args),
      );
      const before = process.cpuUsage();
      const settled = runBatch(jobs);
      const { user, system } = process.cpuUsage(before);
      for (const one of settled) if (!one.isFulfilled) throw one.error;
      return user + system;
    },
    close() {
      close();
      rmSync(folder, { recursive: true });
    },
  };
}

function tellStatements(db: Database, count: (text: string, micros: number) => void): void {
  const prepare = db.prepare.bind(db);
  db.prepare = ((text: string) => {
    const statement = prepare(text);
    for (const method of ['run', 'get', 'all', 'iterate'] as const) {
      const call = statement[method].bind(statement) as (...args: unknown[]) => never;
      statement[method] = (...args: unknown[]) => {
        const startedAt = performance.now();
        const answer = call(...args);
        count(text, (performance.now() - startedAt) * 1000);
        return answer;
      };
    }
    return statement;
  }) as typeof db.prepare;
}

function outcomeOf({ run: { id: runId, startedAt } }: Acceptance) {
  const step = { token: tokenOf(runId, 'only', holder), runId, stepKey: 'only' };
  const times = { at: now, dueAt: startedAt, startedAt };
  return { ...step, ...times, input: {}, result: { kind: 'succeeded', output: {} } };
}

/** Writes all deliveries; calls `onRestart` with the log whenever it reaches RESTART_FRAMES. */
function load(rows: ReturnType<typeof openRows>, onRestart: (log: Buffer) => void = () => {}) {
  const deploy = deployOf(graphOf({ only: [] }));
  const order = values.order ? { serialize: 'trigger.key' } : {};
  rows.commit([['deployFlow', { ...deploy, snapshot: { ...(deploy.snapshot as object), ...order } }]]);
  rows.db.pragma('wal_checkpoint(TRUNCATE)');
  const bytesBefore = rows.bytes();
  let begun: readonly Acceptance[] = [];
  let micros = 0;
  let pages = 0;
  let framesBefore = 0;
  for (let commit = 0; commit < commits; commit += 1) {
    now += 2;
    const lease = { holder, leasedUntil: now + 30_000, limit: 1 };
    const accepted = Array.from({ length: size }, () => acceptanceOf(randomUUID()));
    micros += rows.commit([
      ...accepted.map((one) => ['accept', sentAcceptance(one, lease), one.run.trigger.body] as const),
      ...begun.map((one) => ['advance', JSON.stringify(outcomeOf(one)), lease] as const),
    ]);
    begun = accepted;
    const [{ log }] = rows.db.pragma('wal_checkpoint(NOOP)') as [{ log: number }];
    pages += log - framesBefore;
    framesBefore = log;
    if (log < RESTART_FRAMES) continue;
    onRestart(rows.log().subarray(0, WAL_HEADER + log * FRAME));
    rows.db.pragma('wal_checkpoint(TRUNCATE)');
    framesBefore = 0;
  }
  rows.db.pragma('wal_checkpoint(TRUNCATE)');
  return { micros, pages, bytes: rows.bytes() - bytesBefore };
}

const texts = new Map<string, { count: number; micros: number }>();
const counted = openRows((text, took) => {
  const known = texts.get(text) ?? { count: 0, micros: 0 };
  texts.set(text, { count: known.count + 1, micros: known.micros + took });
});
texts.clear();
const writes = new Map<number, number>();
const { pages, bytes } = load(counted, (log) => {
  for (let at = WAL_HEADER; at < log.byteLength; at += FRAME) {
    const page = log.readUInt32BE(at);
    writes.set(page, (writes.get(page) ?? 0) + 1);
  }
});
if (values.detail) printDetail(counted.db);
counted.close();
const timed = openRows();
const { micros } = load(timed);
timed.close();

const statements = [...texts.values()].reduce((sum, { count }) => sum + count, 0);
console.log(`${deliveries} deliveries of ${values.body} bytes with a run of one step, ${size} a commit; for each:`);
console.log(
  `${each(statements, 2)} statements, ${each(pages, 2)} pages of 2 KB (${(pages / commits).toFixed(1)} a commit)`,
);
console.log(`${each(bytes, 0)} bytes stored, ${each(micros, 1)} µs of the writer's CPU`);

/** Prints pages and bytes per delivery of each table and index, and the time of statements. */
function printDetail(db: Database): void {
  const sums = new Map<string, { pages: number; bytes: number }>();
  const owners = db.prepare<[], { name: string; pageno: number }>('SELECT name, pageno FROM dbstat').all();
  for (const { name, pageno } of owners) {
    const sum = sums.get(name) ?? { pages: 0, bytes: 0 };
    sums.set(name, { pages: sum.pages + (writes.get(pageno) ?? 0), bytes: sum.bytes + PAGE_BYTES });
  }
  for (const [name, sum] of [...sums].sort(([, one], [, other]) => other.pages - one.pages).slice(0, 24)) {
    const perCommit = (sum.pages / commits).toFixed(2);
    console.log(`${perCommit.padStart(8)} pages a commit ${each(sum.bytes, 0).padStart(6)} bytes ${name}`);
  }
  for (const [text, { count, micros }] of [...texts]
    .sort(([, one], [, other]) => other.micros - one.micros)
    .slice(0, 24)) {
    const line = text.replace(/\s+/g, ' ').trim().slice(0, 90);
    console.log(`${each(micros, 1).padStart(8)} µs ${each(count, 2).padStart(5)} × ${line}`);
  }
}
