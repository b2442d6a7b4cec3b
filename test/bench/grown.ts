import { existsSync, readFileSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { MINUTE_MS } from '../../src/model/clock.ts';
import { FLOW_ID, startService, type Workspace } from '../e2e/service.ts';
import { type Candidate, type CandidateOptions, sluice, writeFlow } from './candidates.ts';
import { fillLog } from './fill-log.ts';
import { fillNonces } from './fill-nonces.ts';

const DELIVERIES = 1_000_000;
const NONCES = 10_000_000;
/** Because of the write-ahead log, filling takes twice the final size. */
const NEEDED_BYTES = 12e9;

/** A database that has grown for a long time. */
interface Grown {
  readonly name: string;
  /** The service removes nothing. */
  resting(): Promise<Candidate>;
  /** The service cuts the delivery log to its last day, from its start. */
  removingDeliveries(): Promise<Candidate>;
  /** The sweep a minute after the start removes expired nonces, then runs older than a day. */
  removingRuns(): Promise<Candidate>;
  /** Removes the folder unless it was given. */
  remove(): Promise<void>;
}

/** Uses the database that an earlier bench left in the folder, or fills a new one. */
export async function openGrown(given: string | undefined, options: CandidateOptions): Promise<Grown> {
  const folder = given === undefined ? await mkdtemp(join(tmpdir(), 'sluice-grown-')) : resolve(given);
  const workspace: Workspace = {
    folder,
    writeManifest: (name, manifest) => writeFile(join(folder, 'manifests', name), JSON.stringify(manifest)),
    // Does nothing, because the next row of the bench uses this database too.
    remove: async () => {},
  };
  const file = join(folder, 'data/sluice.db');
  const mark = join(folder, 'filled.json');
  if (!existsSync(mark)) await fill(workspace, file, mark);
  console.log(`grown: ${readFileSync(mark, 'utf8')}, ${Math.round(statSync(file).size / 1e6)} MB in ${folder}`);
  const make = (env: Record<string, string> = {}) =>
    sluice('accepted', { ...options, workspace, env: { ...KEEP_ALL, ...env } });
  return {
    name: `${NONCES / 1e6}e6 nonces, ${DELIVERIES / 1e6}e6 deliveries`,
    resting: () => make(),
    removingDeliveries: () => counted(file, 'deliveries', make({ SLUICE_DELIVERY_RETENTION_DAYS: '1' })),
    async removingRuns() {
      expireNonces(file);
      const candidate = await counted(file, 'runs', make({ SLUICE_RUN_RETENTION_DAYS: '1' }));
      const sweptAt = candidate.startedAt + MINUTE_MS;
      return { ...candidate, ready: () => wait(sweptAt - SHORTLY_MS - performance.now()) };
    },
    remove: () => (given === undefined ? rm(folder, { recursive: true, force: true }) : Promise.resolve()),
  };
}

/** How long before the sweep the load begins. */
const SHORTLY_MS = 1000;

const KEEP_ALL = {
  SLUICE_DELIVERY_RETENTION_DAYS: '3650',
  SLUICE_RUN_RETENTION_DAYS: '3650',
};

async function fill(workspace: Workspace, file: string, mark: string): Promise<void> {
  const { folder } = workspace;
  await mkdir(join(folder, 'manifests'), { recursive: true });
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < NEEDED_BYTES) throw new Error(`${folder} needs ${NEEDED_BYTES / 1e9} GB of free disk`);
  if (existsSync(file)) throw new Error(`${folder} has a database that no bench filled, or not to the end`);
  const startedAt = performance.now();
  await writeFlow(workspace);
  await (await startService(workspace, KEEP_ALL)).stop('SIGTERM');
  fillLog(file, DELIVERIES);
  fillNonces(file, { flowId: FLOW_ID, triggerKey: 'github' }, NONCES);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  await writeFile(mark, JSON.stringify({ deliveries: DELIVERIES, nonces: NONCES, seconds }));
}

/** About as many as can be purged during five seconds of load. */
const EXPIRED = 60_000;

function expireNonces(file: string): void {
  const db = new Database(file);
  db.prepare(`
    UPDATE nonces SET expires_at = 0 WHERE seq IN (SELECT seq FROM nonces WHERE expires_at > 0 ORDER BY seq LIMIT ?)`).run(
    EXPIRED,
  );
  db.close();
}

/** At the end, prints how many rows were removed, as proof that rows were removed at all. */
async function counted(file: string, table: string, making: Promise<Candidate>): Promise<Candidate> {
  const count = () => {
    const db = new Database(file, { readonly: true });
    const sql = `SELECT (SELECT count(*) FROM ${table}) AS rows, (SELECT count(*) FROM nonces WHERE expires_at = 0) AS expired`;
    const counts = db.prepare<[], { rows: number; expired: number }>(sql).get() ?? { rows: 0, expired: 0 };
    db.close();
    return counts;
  };
  const before = count();
  const candidate = await making;
  return {
    ...candidate,
    async stop() {
      await candidate.stop();
      const after = count();
      const [rows, expired] = [after.rows - before.rows, before.expired - after.expired];
      console.log(`${table}: ${rows} rows more, ${expired} expired nonces less`);
    },
  };
}
