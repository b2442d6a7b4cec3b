import { defineConfig } from 'vitest/config';
import { GATE } from './test/gate.ts';

// `fast` and `postgres` are `npm test`; `proof` holds the long ones: crash points, floods, a browser; `gate` is those of them
// that each change must pass. `proof-postgres` runs what `fast` runs on SQLite, see test/database.ts.
const postgres = 'test/postgres/**/*.test.ts';
const onEitherDatabase = [
  'test/{flows,webhooks,deploys,dashboard,telemetry,e2e,features/{access-record,activity,api-docs,approvals,attention,bulk,consumers,hold,login,loops,reconcile,respond,review,sign-on,signals}}/*.test.ts',
  'test/publishers/meta.test.ts',
  'test/{publishers/{asana,no-oracle},flows/any-run,deploys/{isolation,two-processes},dashboard/event-stream}.proof.ts',
  'test/features/reconcile/{github,odd-answers}.proof.ts',
  'test/e2e/{check-by-token,internal-fault,keys,learned-key,mcp,read-again,rehearsal,stray-errors}.proof.ts',
  'test/api-secrets.test.ts',
];
const onSqliteAlone = [
  // They are about its file, about what a start without PostgreSQL loads, and about the page, which knows no database.
  'test/e2e/start-modules.test.ts',
  'test/dashboard/page.test.ts',
];
// Tests load modules of the page too.
const oxc = { jsx: { importSource: 'preact' } };
const setUp = 'test/set-up.ts';
const setUpWithPostgres = [setUp, 'test/postgres/server-setup.ts'];
export default defineConfig({
  test: {
    globalSetup: 'test/print-seed.ts',
    projects: [
      // One module registry for all files of a worker: loading the service anew for each took half of the time.
      {
        oxc,
        test: {
          name: 'fast',
          setupFiles: setUp,
          include: ['test/**/*.test.ts'],
          exclude: [postgres, '**/node_modules/**'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          isolate: false,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: 'postgres',
          setupFiles: setUpWithPostgres,
          include: [postgres],
          globalSetup: 'test/postgres/server.ts',
          testTimeout: 60_000,
          hookTimeout: 60_000,
          isolate: false,
          // They wait for the database most of the time.
          maxWorkers: 4,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'proof',
          setupFiles: setUpWithPostgres,
          include: ['test/**/*.proof.ts'],
          globalSetup: 'test/postgres/server.ts',
          testTimeout: 600_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'gate',
          setupFiles: setUpWithPostgres,
          include: Object.values(GATE).flatMap((names) => names.map((name) => `test/${name}.proof.ts`)),
          globalSetup: 'test/postgres/server.ts',
          testTimeout: 600_000,
          hookTimeout: 60_000,
        },
      },
      {
        oxc,
        test: {
          name: 'proof-postgres',
          setupFiles: setUpWithPostgres,
          include: onEitherDatabase,
          exclude: onSqliteAlone,
          provide: { database: 'postgres' },
          globalSetup: 'test/postgres/server.ts',
          testTimeout: 600_000,
          hookTimeout: 60_000,
        },
      },
    ],
    coverage: { provider: 'v8', include: ['src/**'], reporter: ['text-summary', 'html'] },
  },
});
