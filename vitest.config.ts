import { defineConfig } from 'vitest/config';

// `fast` and `postgres` are `npm test`; `proof` holds the long ones: crash points, floods, a browser.
const postgres = 'test/postgres/**/*.test.ts';
export default defineConfig({
  test: {
    projects: [
      // One module registry for all files of a worker: loading the service anew for each took half of the time.
      {
        test: {
          name: 'fast',
          include: ['test/**/*.test.ts'],
          exclude: [postgres],
          testTimeout: 20_000,
          isolate: false,
        },
      },
      {
        test: {
          name: 'postgres',
          include: [postgres],
          globalSetup: 'test/postgres/server.ts',
          testTimeout: 20_000,
          isolate: false,
        },
      },
      {
        test: {
          name: 'proof',
          include: ['test/**/*.proof.ts'],
          globalSetup: 'test/postgres/server.ts',
          testTimeout: 600_000,
          hookTimeout: 60_000,
        },
      },
    ],
    coverage: { provider: 'v8', include: ['src/**'], reporter: ['text-summary', 'html'] },
  },
});
