import { createHmac, randomUUID } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import {
  createWorkspace,
  GITHUB_SECRET,
  getJson,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

/** Nine of ten connections send refused deliveries. */
const REFUSED_CONNECTIONS = 9;

const MIB = 1024 * 1024;
const REFUSED_BYTES = 256 * MIB;
const MAX_MEMORY_BYTES = 400 * MIB;
const MAX_LOG_BYTES = 64 * MIB;
/** The bounded log, with its free pages. */
const REFUSED_FILE_BYTES = 384 * MIB;
/** Run, steps, attempts and record of one accepted delivery, including indexes. */
const ACCEPTED_FILE_BYTES = 8192;

/** More than the log may keep. */
const FLOOD = Math.ceil((1.5 * REFUSED_BYTES) / 60_000);
/** Refused deliveries between two measurements of memory and files. */
const LOOK_EVERY = 100;

const ACCEPTED = JSON.stringify({ text: 'x'.repeat(500) });
const REFUSED = JSON.stringify({ text: 'y'.repeat(60_000) });
const RIGHT = `sha256=${createHmac('sha256', GITHUB_SECRET).update(ACCEPTED).digest('hex')}`;

let workspace: Workspace | undefined;

async function send({ url }: Service, body: string, expected: number): Promise<void> {
  const response = await fetch(`${url}/flows/api/webhook/push`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-hub-signature-256': RIGHT,
      'x-github-delivery': randomUUID(),
    },
    body,
  });
  await response.arrayBuffer();
  if (response.status !== expected) throw new Error(`answered ${response.status}, not ${expected}`);
}

/** Nine connections send refused deliveries and one sends accepted ones, until `FLOOD` were refused. */
async function flood(service: Service, look: () => Promise<void>): Promise<{ accepted: number; refused: number }> {
  const sent = { accepted: 0, refused: 0 };
  const repeat = async (work: () => Promise<void>) => {
    while (sent.refused < FLOOD) await work();
  };
  await Promise.all([
    repeat(async () => {
      await send(service, ACCEPTED, 200);
      sent.accepted += 1;
    }),
    ...Array.from({ length: REFUSED_CONNECTIONS }, () =>
      repeat(async () => {
        await send(service, REFUSED, 401);
        sent.refused += 1;
        if (sent.refused % LOOK_EVERY === 0) await look();
      }),
    ),
  ]);
  return sent;
}

async function memoryBytes({ url }: Service): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return Number(/^process_resident_memory_bytes (\S+)$/m.exec(metrics)?.[1]);
}

it('a flood of refused deliveries costs a bounded amount of memory and disk, and no accepted one', async () => {
  workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const service = await startService(workspace, {
    SLUICE_ENFORCEMENT_MODE: 'Enforce',
    SLUICE_LOG_LEVEL: 'error',
  });
  const file = join(workspace.folder, 'data', 'sluice.db');
  const sizeOf = (path: string) => (existsSync(path) ? statSync(path).size : 0);
  const peak = { memory: 0, log: 0, file: 0 };
  const look = async () => {
    peak.memory = Math.max(peak.memory, await memoryBytes(service));
    peak.log = Math.max(peak.log, sizeOf(`${file}-wal`));
    peak.file = Math.max(peak.file, sizeOf(file));
  };

  const { accepted, refused } = await flood(service, look);
  await look();

  const list = (query: string) =>
    getJson<{ total: number }>(`${service.url}/flows/api/webhooks/recent?take=1&includeTotal=true&${query}`);
  const stats = await getJson<object>(`${service.url}/flows/api/webhooks/stats`);
  const kept = { accepted: (await list('acceptedOnly=true')).total, refused: (await list('rejectedOnly=true')).total };
  console.log(
    JSON.stringify({
      accepted,
      refused,
      kept,
      peakMiB: Object.fromEntries(Object.entries(peak).map(([name, bytes]) => [name, Math.round(bytes / MIB)])),
    }),
  );
  await service.stop('SIGTERM');

  expect(stats).toMatchObject({ accepted, rejected: refused, counts: { signature_mismatch: refused } });
  expect(kept.accepted).toBe(accepted);
  expect(kept.refused * REFUSED.length).toBeLessThanOrEqual(REFUSED_BYTES);
  expect(refused * REFUSED.length).toBeGreaterThan(REFUSED_BYTES);
  expect(peak.memory).toBeLessThan(MAX_MEMORY_BYTES);
  expect(peak.log).toBeLessThan(MAX_LOG_BYTES);
  expect(peak.file).toBeLessThan(REFUSED_FILE_BYTES + accepted * ACCEPTED_FILE_BYTES);
});
