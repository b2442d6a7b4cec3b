import pg from 'pg';
import { createWorkspace, startService } from '../e2e/service.ts';
import { startPostgres } from '../postgres/server.ts';
import { type Candidate, type CandidateOptions, delivery, nodeOptions, ROUTE, writeFlow } from './candidates.ts';

/** A separate PostgreSQL with normal flushing, and services on it. */
export interface OnPostgres {
  /** Its first process, the parent of all others. */
  readonly pid: number;
  /** A new database for another program. */
  createDatabase(): Promise<string>;
  /** One replica on a new schema; deliveries are signed and have nonces. */
  make(): Promise<Candidate>;
  remove(): Promise<void>;
}

export async function openOnPostgres(options: CandidateOptions = {}): Promise<OnPostgres> {
  // The last of two settings counts; the tests' server does not flush.
  const server = await startPostgres(['-c', 'fsync=on', '-c', 'shared_buffers=256MB']);
  const pool = new pg.Pool({ connectionString: server.url, max: 2 });
  // Connections lost when the server stops must not hide why a load failed.
  pool.on('error', () => {});
  const { rows } = await pool.query("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::integer AS pid");
  const pid: number = rows[0].pid;
  let count = 0;
  return {
    pid,
    async createDatabase() {
      count += 1;
      const name = `bench_${count}`;
      await pool.query(`CREATE DATABASE ${name}`);
      return server.url.replace(/[^/]*$/, name);
    },
    async make() {
      count += 1;
      const schema = `bench_${count}`;
      const workspace = await createWorkspace();
      await writeFlow(workspace);
      const startedAt = performance.now();
      const service = await startService(workspace, {
        SLUICE_DATABASE_URL: server.url,
        SLUICE_DATABASE_SCHEMA: schema,
        SLUICE_DRAIN_SECONDS: '0',
        SLUICE_ENFORCEMENT_MODE: 'Enforce',
        SLUICE_LOG_LEVEL: 'warn',
        NODE_OPTIONS: nodeOptions('postgres', options),
      });
      return {
        pid: service.child.pid ?? 0,
        startedAt,
        load: { url: `${service.url}${ROUTE}`, headers: delivery.headers, body: delivery.body },
        expectedStatus: 200,
        helpers: [pid],
        async runs() {
          const { rows: found } = await pool.query(
            `SELECT (SELECT sum(count) FROM ${schema}.run_totals WHERE status = 'Succeeded') AS executed,
              (SELECT min(due_at) FROM ${schema}.steps WHERE due_at <= $1) AS due,
              (SELECT percentile_cont(0.99) WITHIN GROUP (ORDER BY s.started_at - r.started_at) FROM (
                SELECT id, started_at FROM ${schema}.runs ORDER BY id DESC LIMIT 1000
              ) AS r JOIN ${schema}.steps s ON s.run_id = r.id) AS wait`,
            [Date.now()],
          );
          const [{ executed, due, wait }] = found as [{ executed: string; due: string | null; wait: number | null }];
          const oldestDueMs = due === null ? 0 : Date.now() - Number(due);
          return { executed: Number(executed ?? 0), oldestDueMs, firstStepP99Ms: wait };
        },
        async stop() {
          await service.stop('SIGTERM');
          await workspace.remove();
          await pool.query(`DROP SCHEMA ${schema} CASCADE`);
        },
      };
    },
    async remove() {
      await pool.end();
      await server.stop();
    },
  };
}
