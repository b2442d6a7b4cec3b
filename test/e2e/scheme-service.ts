import { afterAll, beforeAll } from 'vitest';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import { KEYS, SIGNING_KEYS } from '../webhooks/schemes/fixtures.ts';
import { runCli } from './cli.ts';
import { createWorkspace, type Service, startService, type Workspace } from './service.ts';

const SETTINGS = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_ALLOW_LEGACY_SHA1: 'true' };

/** Triggers whose deliveries need both their own fields and the scheme's headers. */
const PARTICULAR = {
  'twilio-with-query': {
    webhookSignatureScheme: 'Twilio',
    webhookHmacKey: KEYS.Twilio,
    webhookPublicUrl: 'https://hooks.example.com/in?tenant=1#rc=2',
  },
  'nonce-in-capitals': {
    webhookSignatureScheme: 'Svix',
    webhookHmacKey: KEYS.StandardWebhooks,
    webhookNonceHeader: 'WEBHOOK-ID',
  },
  'named-timestamp': {
    webhookSignatureScheme: 'GitHub',
    webhookHmacKey: KEYS.GitHub,
    webhookTimestampHeader: 'X-Sent-At',
    webhookRequireTimestamp: true,
  },
};

/** A service for the tests of a file, and the `send` command. */
export function useSchemeService() {
  let started: Awaited<ReturnType<typeof startSchemeService>>;
  beforeAll(async () => {
    started = await startSchemeService();
  });
  afterAll(() => started.service.stop('SIGTERM'));
  return {
    workspace: () => started.workspace,
    service: () => started.service,
    send: (...args: string[]) => runCli(started.workspace, ['send', ...args, '--to', started.service.url]),
  };
}

/** One trigger per built-in scheme, with the scheme's name in lower case as slug. */
async function startSchemeService(): Promise<{ workspace: Workspace; service: Service }> {
  const workspace = await createWorkspace();
  const triggers = BUILT_IN_SCHEMES.map(({ name, headers }) => [
    name,
    {
      type: 'webhook',
      inputs: {
        webhookSlug: name.toLowerCase(),
        webhookSignatureScheme: name,
        webhookHmacKey: KEYS[name],
        webhookReplayToleranceSeconds: 300,
        webhookNonceHeader: headers[0]?.deliveryId ?? 'X-Delivery-Id',
      },
    },
  ]);
  const particular = Object.entries(PARTICULAR).map(([slug, inputs]) => [
    slug,
    { type: 'webhook', inputs: { webhookSlug: slug, ...inputs } },
  ]);
  await workspace.writeManifest('schemes.json', {
    id: '3d1f6f0e-6d0f-4c58-9d3b-3a0d3c9f7a11',
    name: 'schemes',
    version: '1',
    triggers: Object.fromEntries([...triggers, ...particular]),
    steps: { only: { type: 'NoOp' } },
  });
  return { workspace, service: await startService(workspace, SETTINGS) };
}

/** The key option of `send` for schemes whose configured key can only verify. */
export function keyOption(name: string): string[] {
  return SIGNING_KEYS[name] === KEYS[name] ? [] : ['--key', SIGNING_KEYS[name] ?? ''];
}
