import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sign } from '../oracles/octokit.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  GITHUB_SECRET,
  getJson,
  githubManifest,
  type Service,
  startService,
  type Workspace,
  written,
} from './service.ts';

interface Listed {
  id: string;
  reason: string | null;
  rejected: boolean;
  enforced: boolean;
  statusCode: number;
  violations: string[];
  runId: string | null;
}

const examples = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
  name: string;
  examples: unknown[];
}[];
const push = examples.find((example) => example.name === 'push')?.examples[0];
const payload = JSON.stringify(push);

async function post(service: Service, body: string, headers: Record<string, string>) {
  const response = await fetch(`${service.url}/flows/api/webhook/push`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-github-event': 'push', ...headers },
    body,
  });
  return { status: response.status, answer: (await response.json()) as Record<string, unknown> };
}

async function signed(body: string, delivery = randomUUID()) {
  return { 'x-hub-signature-256': await sign(GITHUB_SECRET, body), 'x-github-delivery': delivery };
}

describe.each(['Off', 'Audit', 'Enforce'] as const)('the built service under %s', (mode) => {
  let workspace: Workspace;
  let service: Service;
  beforeAll(async () => {
    workspace = await createWorkspace();
    await workspace.writeManifest('push.json', githubManifest());
    service = await startService(workspace, { SLUICE_ENFORCEMENT_MODE: mode });
  });
  afterAll(() => service.stop('SIGTERM'));

  it('runs the flow of a real push, signed by the publisher’s own code, to its end', async () => {
    const { status, answer } = await post(service, payload, await signed(payload));
    expect(status).toBe(200);
    const run = await eventually(
      () => getJson<{ status: string; steps: { status: string }[] }>(`${service.url}/flows/api/runs/${answer.runId}`),
      ({ status }) => status !== 'Running',
    );
    expect(run.status).toBe('Succeeded');
    expect(run.steps.map((step) => step.status)).toEqual(['Succeeded', 'Succeeded']);
  });

  it('accepts GitHub’s documented example', async () => {
    const body = 'Hello, World!';
    const response = await fetch(`${service.url}/flows/api/webhook/${FLOW_ID.toUpperCase()}`, {
      method: 'POST',
      headers: {
        'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
        'x-github-delivery': randomUUID(),
      },
      body,
    });
    expect(response.status).toBe(200);
  });

  it('judges a delivery that was changed by one byte, and keeps a record of it', async () => {
    const headers = await signed(payload);
    const { status, answer } = await post(service, payload.replace('refs/', 'refS/'), headers);
    expect(status).toBe(mode === 'Enforce' ? 401 : 200);
    const [latest] = await getJson<Listed[]>(`${service.url}/flows/api/webhooks/recent?rejectedOnly=true`);
    expect(latest).toMatchObject({
      reason: 'signature_mismatch',
      violations: ['signature_mismatch'],
      rejected: true,
      enforced: mode === 'Enforce',
      statusCode: status,
      runId: mode === 'Enforce' ? null : answer.runId,
    });
    if (mode === 'Enforce') expect(answer).toMatchObject({ statusCode: 401, reason: 'signature_mismatch' });
  });

  it('says what would help a delivery that was changed on its way, whether or not it was accepted', async () => {
    await post(service, `${payload}\n`, await signed(payload));
    const [latest] = await getJson<Listed[]>(`${service.url}/flows/api/webhooks/recent?rejectedOnly=true&take=1`);
    const review = await getJson<{ hints: string[]; signature: object }>(
      `${service.url}/flows/api/webhooks/${latest?.id}`,
    );
    expect(review.hints).toEqual([expect.stringMatching(/^The signature matches without the trailing newline: /)]);
    expect(review.signature).toMatchObject({
      signedBytes: { length: Buffer.byteLength(payload) + 1, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
      keys: { current: expect.stringMatching(/^[0-9a-f]{8}$/) },
    });
  });

  it('knows a delivery that was sent again', async () => {
    const headers = await signed(payload);
    expect((await post(service, payload, headers)).status).toBe(200);
    const again = await post(service, payload, headers);
    expect(again.status).toBe(mode === 'Enforce' ? 409 : 200);
    const [latest] = await getJson<Listed[]>(`${service.url}/flows/api/webhooks/recent`);
    expect(latest).toMatchObject({ reason: 'nonce_replayed', rejected: true, enforced: mode === 'Enforce' });
  });

  it('writes log events and counts refusals only where the mode says so', async () => {
    const metrics = await (await fetch(`${service.url}/metrics`)).text();
    const counted = /^webhook_rejected_total\{.*reason="signature_mismatch".*\} (\d+)$/m.exec(metrics)?.[1];
    expect(counted).toBe(mode === 'Off' ? undefined : '2');
    // Events are written in order: once the last one is there, all are.
    const { answer } = await post(service, payload, await signed(payload));
    await written(service, String(answer.runId));
    const isLogged = service.output().includes('"eventId":4001');
    expect(isLogged).toBe(mode !== 'Off');
    expect(service.output()).toContain('"eventId":4007');
  });
});
