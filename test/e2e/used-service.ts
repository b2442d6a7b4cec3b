import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { createWorkspace, type Service, startService, type Workspace } from './service.ts';

interface UsedService {
  readonly workspace: Workspace;
  readonly service: Service;
  /** The URL of a path of the API. */
  at(path: string): string;
  post<Body = Record<string, unknown>>(
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ readonly status: number; readonly body: Body }>;
  /** Ends the process, and starts another on the same data. */
  restart(signal: NodeJS.Signals): Promise<void>;
}

/**
 * The built service, shared by the tests of a file or group, or a new one for each. `prepare` fills its folder and
 * returns its environment variables.
 */
export function useService(
  prepare: (workspace: Workspace) => Promise<Record<string, string> | undefined>,
  scope: 'all' | 'each' = 'all',
): UsedService {
  // Both are filled before the tests.
  const workspace = {} as Workspace;
  const service = {} as Service;
  let env: Record<string, string>;
  const start = async () => void Object.assign(service, await startService(workspace, env));
  const begin = async () => {
    Object.assign(workspace, await createWorkspace());
    env = (await prepare(workspace)) ?? {};
    await start();
  };
  const end = () => service.stop('SIGTERM');
  if (scope === 'all') {
    beforeAll(begin, 60_000);
    afterAll(end);
  } else {
    beforeEach(begin);
    afterEach(end);
  }
  const at = (path: string) => `${service.url}/flows/api/${path}`;
  return {
    workspace,
    service,
    at,
    async post<Body>(path: string, body: unknown = {}, headers: Readonly<Record<string, string>> = {}) {
      const sent = { method: 'POST', headers: { 'content-type': 'application/json', ...headers } };
      const response = await fetch(at(path), { ...sent, body: JSON.stringify(body) });
      return { status: response.status, body: (await response.json()) as Body };
    },
    async restart(signal) {
      await service.stop(signal);
      await start();
    },
  };
}
