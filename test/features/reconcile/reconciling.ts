import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pino from 'pino';
import type { SettingsInput } from '../../../src/config/settings-schema.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { buildApp } from '../../database.ts';
import { eventually } from '../../e2e/service.ts';
import { temporaryFolder } from '../../temporary.ts';
import type { FakeGithub } from './github.ts';

export const FLOW_ID = '0c000000-0000-4000-8000-000000000001';
export const SECRET = 'a secret of enough bytes';

/** A manifest whose trigger is reconciled with the fake publisher. */
export function manifestOf(
  baseUrl: string,
  { reconcile = {}, inputs = {}, more = {} }: { reconcile?: object; inputs?: WebhookInputs; more?: object } = {},
): object {
  const from = {
    from: 'github',
    repo: 'octo/shop',
    hook: 7,
    token: 'ghp_test',
    every: 'PT1S',
    lookback: 'P2D',
    baseUrl,
  };
  return {
    id: FLOW_ID,
    name: 'shop',
    version: '1',
    triggers: {
      github: {
        type: 'webhook',
        inputs: { webhookSlug: 'shop', webhookSignatureScheme: 'GitHub', webhookHmacKey: SECRET, ...inputs },
        reconcile: { ...from, ...reconcile },
      },
    },
    steps: { only: { type: 'NoOp' } },
    ...more,
  };
}

/** A folder with a manifest and a database that outlive a service. */
export async function reconcilingFolder(manifest: object) {
  const folder = temporaryFolder('reconcile');
  await mkdir(join(folder, 'manifests'));
  const write = (changed: object) => writeFile(join(folder, 'manifests', 'shop.json'), JSON.stringify(changed));
  await write(manifest);
  return { folder, write, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** A service in this process, with its log and its deliveries. */
export async function startReconciling(folder: string, settings: SettingsInput = {}) {
  const logged: string[] = [];
  const app = await buildApp({
    folder,
    // Its runs may be in flight when a test deploys.
    allow: ['access', 'caution'],
    logger: pino({ level: 'debug' }, { write: (line) => logged.push(line) }),
    settings: {
      port: 0,
      databaseUrl: 'sqlite:service.db',
      manifests: 'manifests',
      enforcementMode: 'Enforce',
      egressAllow: ['127.0.0.1'],
      ...settings,
    },
  });
  const url = await app.listen();
  const get = async <Answer>(path: string) => (await (await fetch(`${url}${path}`)).json()) as Answer;
  return {
    app,
    url,
    logged,
    hook: `${url}/flows/api/webhook/shop`,
    get,
    runs: () => get<{ id: string; deliveryId: string }[]>('/flows/api/runs?take=500'),
    deliveries: () => get<Delivered[]>('/flows/api/webhooks/recent?take=500'),
    /** Resolves once so many looks at the log have begun: when the second begins, the first's finds are settled. */
    async looks(github: FakeGithub, times = 2) {
      const before = github.looks;
      await eventually(
        () => github.looks,
        (looks) => looks >= before + times,
      );
    },
    close: () => app.close(),
  };
}

export interface Delivered {
  readonly id: string;
  readonly runId: string | null;
  readonly detail: string | null;
  readonly reason: string | null;
  readonly outcome: string | null;
  readonly headers: Readonly<Record<string, string>>;
}
