import { createHmac, randomUUID } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

const canary = (name: string) => `canary-${name}-${randomUUID()}`;
const SECRETS = {
  literalKey: canary('literal-key'),
  previousKey: canary('previous-key'),
  envKey: canary('env-key'),
  fileKey: canary('file-key'),
  stepToken: canary('step-token'),
  literalStepToken: canary('literal-step-token'),
  dashboardToken: canary('dashboard-token'),
  dashboardPassword: canary('dashboard-password'),
  senderAuthorization: canary('sender-authorization'),
  senderCookie: canary('sender-cookie'),
};

let workspace: Workspace;
let service: Service;
let echo: Server;
const authorization = { authorization: `Bearer ${SECRETS.dashboardToken}` };

beforeAll(async () => {
  // Answers with every header it was sent, as a debugging endpoint would.
  echo = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ headers: request.headers }));
  }).listen(0, '127.0.0.1');
  await new Promise((listening) => echo.once('listening', listening));
  const url = `http://127.0.0.1:${(echo.address() as AddressInfo).port}/`;
  workspace = await createWorkspace();
  const steps = {
    call: {
      type: 'HttpRequest',
      inputs: { url, headers: { authorization: 'env:STEP_TOKEN', 'x-api-key': SECRETS.literalStepToken } },
    },
    fail: { type: 'HttpRequest', inputs: { url: 'http://localhost:1/', headers: { authorization: 'env:STEP_TOKEN' } } },
  };
  await workspace.writeManifest(
    'literal.json',
    githubManifest({
      inputs: { webhookHmacKey: SECRETS.literalKey, webhookHmacKeyPrevious: SECRETS.previousKey },
      steps,
    }),
  );
  await workspace.writeManifest('env.json', {
    ...githubManifest({ inputs: { webhookSlug: 'from-env', webhookHmacKey: 'env:WEBHOOK_KEY' } }),
    id: randomUUID(),
  });
  await workspace.writeManifest('file.json', {
    ...githubManifest({ inputs: { webhookSlug: 'from-file', webhookHmacKey: 'file:../webhook.key' } }),
    id: randomUUID(),
  });
  await writeFile(join(workspace.folder, 'webhook.key'), SECRETS.fileKey);
  service = await startService(workspace, {
    SLUICE_ENFORCEMENT_MODE: 'Enforce',
    SLUICE_LOG_LEVEL: 'trace',
    SLUICE_EGRESS_ALLOW: '127.0.0.0/8,localhost',
    SLUICE_DASHBOARD_TOKEN: SECRETS.dashboardToken,
    SLUICE_DASHBOARD_USER: 'operator',
    SLUICE_DASHBOARD_PASSWORD: SECRETS.dashboardPassword,
    WEBHOOK_KEY: SECRETS.envKey,
    STEP_TOKEN: SECRETS.stepToken,
  });
});

afterAll(async () => {
  await service.stop('SIGTERM');
  echo.close();
  await workspace.remove();
});

async function deliver(slug: string, key: string): Promise<number> {
  const body = JSON.stringify({ slug });
  const response = await fetch(`${service.url}/flows/api/webhook/${slug}`, {
    method: 'POST',
    headers: {
      'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
      'x-github-delivery': randomUUID(),
      authorization: `Bearer ${SECRETS.senderAuthorization}`,
      cookie: `session=${SECRETS.senderCookie}`,
    },
    body,
  });
  return response.status;
}

async function read(path: string): Promise<string> {
  return (await fetch(`${service.url}${path}`, { headers: authorization })).text();
}

it('lets no secret out: not in an answer, a log line, a metric or the database', async () => {
  expect(await deliver('push', SECRETS.literalKey)).toBe(200);
  expect(await deliver('push', SECRETS.previousKey)).toBe(200);
  expect(await deliver('from-env', SECRETS.envKey)).toBe(200);
  expect(await deliver('from-file', SECRETS.fileKey)).toBe(200);
  expect(await deliver('push', 'forged')).toBe(401);
  expect(await deliver('nowhere', 'forged')).toBe(404);
  await eventually(
    () => read('/flows/api/runs/active'),
    (active) => active === '[]',
  );

  const seen: Record<string, string> = {};
  const runs = JSON.parse(await read('/flows/api/runs')) as { id: string }[];
  const deliveries = JSON.parse(await read('/flows/api/webhooks/recent')) as { id: string }[];
  expect(runs).toHaveLength(4);
  expect(deliveries).toHaveLength(6);
  const paths = [
    ...['flows', `flows/${FLOW_ID}`, 'runs', 'handlers', 'schemes', 'openapi.json', 'docs', 'webhooks/stats?hours=1'],
    ...runs.flatMap((run) => [`runs/${run.id}`, `runs/${run.id}/steps`, `runs/${run.id}/control`]),
    ...deliveries.map((delivery) => `webhooks/${delivery.id}`),
  ];
  for (const path of paths) seen[path] = await read(`/flows/api/${path}`);
  seen.recent = JSON.stringify(deliveries);
  seen.metrics = await read('/metrics');
  const output = runs.map((run) => seen[`runs/${run.id}`]).join();
  expect(output, 'the call was made and its answer kept').toContain('"authorization":"***"');
  seen.refused = await (
    await fetch(`${service.url}/flows/api/runs`, { headers: { authorization: 'Bearer wrong' } })
  ).text();
  const { code } = await service.stop('SIGTERM');
  expect(code).toBe(0);
  seen.log = service.output();
  for (const file of await readdir(join(workspace.folder, 'data'))) {
    seen[file] = await readFile(join(workspace.folder, 'data', file), 'latin1');
  }
  expect(Object.keys(seen)).toContain('sluice.db');
  const leaks = Object.entries(seen).flatMap(([place, text]) =>
    Object.entries(SECRETS).flatMap(([name, secret]) => (text.includes(secret) ? [`${name} in ${place}`] : [])),
  );
  expect(leaks).toEqual([]);
});
