// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.

import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWorkspace, eventually, FLOW_ID, type Service, startService, type Workspace } from '../e2e/service.ts';
import { freePort } from '../free-port.ts';
import { deliveriesOf, deliveryThat, endedRun, type Publisher, startPublisher } from './publisher.ts';

/*
 * Ghost from npm, with only its own settings. It takes 650 MB, so this runs only if a folder with it is named:
 *
 *   npm pack ghost@6.65.0 && tar xzf ghost-6.65.0.tgz && cd package
 *   npm install --omit=dev --legacy-peer-deps
 *
 * Where better-sqlite3 12 has no binary, set its version in package.json to 13.2.0 and add --ignore-scripts.
 */
const ghostFolder = process.env.GHOST_FOLDER;

const SECRET = 'a secret that Ghost signs with';

const FLOW = {
  id: FLOW_ID,
  name: 'posts',
  version: '1',
  triggers: {
    posts: {
      type: 'webhook',
      inputs: {
        webhookSlug: 'ghost',
        webhookSignatureScheme: 'Ghost',
        webhookHmacKey: SECRET,
        webhookReplayToleranceSeconds: 300,
        webhookDuplicateResponse: 'acknowledge',
        webhookEnforcementMode: 'Enforce',
        webhookWhen: "body.post.current.title != 'A draft of nothing'",
      },
      searchKeys: { title: 'body.post.current.title' },
    },
  },
  steps: { title: { type: 'Transform', inputs: { value: '${trigger.body.post.current.title}' } } },
};

const OWNER = { name: 'Owner', email: 'owner@example.com', password: 'a long and private phrase' };

let workspace: Workspace;
let service: Service;
let ghost: Publisher;
let cookie = '';
let ghostUrl = '';

async function start(): Promise<void> {
  workspace = await createWorkspace();
  await workspace.writeManifest('posts.json', FLOW);
  service = await startService(workspace);
  const content = join(workspace.folder, 'content');
  await cp(join(ghostFolder ?? '', 'content'), content, { recursive: true });
  await mkdir(join(content, 'data'), { recursive: true });
  const port = await freePort();
  ghostUrl = `http://127.0.0.1:${port}`;
  ghost = await startPublisher(process.execPath, ['index.js'], {
    cwd: ghostFolder ?? '',
    env: {
      NODE_ENV: 'production',
      url: ghostUrl,
      server__host: '127.0.0.1',
      server__port: String(port),
      paths__contentPath: content,
      database__client: 'better-sqlite3',
      database__connection__filename: join(content, 'data/ghost.db'),
      logging__transports: '["stdout"]',
      security__staffDeviceVerification: 'false',
      security__allowWebhookInternalIPs: 'true',
      privacy__useTinfoil: 'true',
      explore__update_url: 'http://127.0.0.1:9/',
      mail__transport: 'Direct',
    },
    until: /Ghost booted in (\S+)/,
  });
  await admin('authentication/setup/', { setup: [{ ...OWNER, blogTitle: 'News' }] });
  const { headers } = await admin('session/', { username: OWNER.email, password: OWNER.password });
  cookie = headers.get('set-cookie')?.split(';')[0] ?? '';
  // Ghost does not accept a new session at once.
  await eventually(
    () => fetch(`${ghostUrl}/ghost/api/admin/users/me/`, { headers: { origin: ghostUrl, cookie } }),
    ({ ok }) => ok,
  );
  await addWebhook(SECRET);
}

/** Sends a request as Ghost's admin page does. */
async function admin(path: string, body: object): Promise<Response> {
  const response = await fetch(`${ghostUrl}/ghost/api/admin/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: ghostUrl, cookie },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}\n${ghost.output()}`);
  return response;
}

async function addWebhook(secret: string): Promise<void> {
  const answer = await admin('integrations/', { integrations: [{ name: `with ${secret}` }] });
  const { integrations } = (await answer.json()) as { integrations: { id: string }[] };
  await admin('webhooks/', {
    webhooks: [
      {
        event: 'post.published',
        target_url: `${service.url}/flows/api/webhook/ghost?with=${encodeURIComponent(secret)}`,
        integration_id: integrations[0]?.id,
        name: secret,
        secret,
      },
    ],
  });
}

const publish = (title: string) => admin('posts/', { posts: [{ title, status: 'published' }] });

const isThere = describe.skipIf(ghostFolder === undefined);
isThere(`Ghost${ghostFolder === undefined ? ' (name a folder of it in GHOST_FOLDER)' : ''}`, () => {
  beforeAll(start, 300_000);
  afterAll(async () => {
    await ghost?.stop();
    await service?.stop('SIGTERM');
  });

  it('sends a post that was published: it is verified, found by its title, and read by a run', async () => {
    await publish('Hello from Ghost');
    const [delivery] = await deliveriesOf(service, 1);
    expect(delivery).toMatchObject({ statusCode: 200, reason: null, scheme: 'Ghost' });
    expect(delivery?.searchKeys).toMatchObject({ title: 'Hello from Ghost' });
    const run = await endedRun(service, delivery?.runId ?? null);
    expect(run.status).toBe('Succeeded');
    expect(run.steps).toContainEqual(expect.objectContaining({ stepKey: 'title', output: 'Hello from Ghost' }));
  });

  it('sends what the trigger filters: it is recorded and starts no run', async () => {
    await publish('A draft of nothing');
    const delivery = await deliveryThat(service, ({ outcome }) => outcome === 'filtered');
    expect(delivery).toMatchObject({ statusCode: 200, runId: null });
  });

  it('with another secret is refused, and the refusal is recorded next to what is accepted', async () => {
    await addWebhook('another secret');
    await publish('To both');
    const refused = await deliveryThat(service, ({ statusCode }) => statusCode === 401);
    expect(refused).toMatchObject({ reason: 'signature_mismatch', runId: null });
    const accepted = await deliveryThat(service, ({ searchKeys }) => searchKeys.title === 'To both');
    expect(accepted).toMatchObject({ statusCode: 200, reason: null, runId: expect.any(String) });
  });
});
