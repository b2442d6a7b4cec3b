import { expect, it, onTestFinished } from 'vitest';
import { exitHooks } from '../oracles/postgres.ts';
import { startPostgres } from './server.ts';

it('leaves the exit code of a run to its tests', async () => {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  expect(exitHooks().hookedEvents()).toContain('SIGTERM');
  expect(exitHooks().hookedEvents()).not.toContain('beforeExit');
  expect(exitHooks().hookedEvents()).not.toContain('exit');
});
