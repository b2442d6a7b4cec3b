import pino from 'pino';
import { beforeEach } from 'vitest';
import type { AppOptions, SluiceApp } from '../src/app.ts';
import type { SettingsInput } from '../src/config/settings-schema.ts';
import { buildApp } from './database.ts';
import { createWorkspace, pushHeaders, type Workspace } from './e2e/service.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** Asks a service for a path of its API, or for its health; bodies are sent as JSON. */
export async function ask({ fastify }: SluiceApp, method: Method, path: string, body?: object) {
  const json = { payload: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
  const url = path.startsWith('/health') ? path : `/flows/api${path}`;
  const response = await fastify.inject({ method, url, ...(body && json) });
  return { status: response.statusCode, answer: response.json() };
}

interface Push extends NonNullable<Parameters<typeof pushHeaders>[1]> {
  readonly slug?: string;
  readonly body?: string;
  readonly headers?: object;
}

/** Sends a delivery as GitHub signs it. */
export async function push({ fastify }: SluiceApp, { slug = 'push', body = '{}', headers = {}, ...signed }: Push = {}) {
  const url = `/flows/api/webhook/${slug}`;
  const sent = { method: 'POST', url, headers: { ...pushHeaders(body, signed), ...headers }, payload: body } as const;
  const response = await fastify.inject(sent);
  return { status: response.statusCode, answer: response.json() };
}

/** A folder of manifests with a service on it, new for each test and removed after it. */
interface FolderApp extends Pick<Workspace, 'folder' | 'writeManifest'> {
  /** Lines of the log. */
  readonly logged: readonly string[];
  /** Starts the service on the folder; stops the previous one. */
  start(settings?: SettingsInput, options?: AppOptions): Promise<SluiceApp>;
  /** Asks the service that was started last. */
  ask(method: Method, path: string, body?: object): ReturnType<typeof ask>;
}

/** `listens`: steps run; without it nothing continues by itself. */
export function useFolderApp({ listens = true } = {}): FolderApp {
  let workspace: Workspace;
  let app: SluiceApp | undefined;
  let logged: string[];
  beforeEach(async () => {
    workspace = await createWorkspace();
    logged = [];
    app = undefined;
  });
  return {
    get folder() {
      return workspace.folder;
    },
    writeManifest: (name, manifest) => workspace.writeManifest(name, manifest),
    get logged() {
      return logged;
    },
    async start(settings = {}, options = {}) {
      await app?.close();
      app = await buildApp({
        settings: { enforcementMode: 'Enforce', port: 0, ...settings },
        folder: workspace.folder,
        logger: pino({ level: 'info' }, { write: (line: string) => logged.push(line) }),
        ...options,
      });
      await (listens ? app.listen() : app.fastify.ready());
      return app;
    },
    ask(method, path, body) {
      if (app === undefined) throw new Error('no service was started');
      return ask(app, method, path, body);
    },
  };
}
