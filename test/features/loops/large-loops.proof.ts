import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createWorkspace, eventually, FLOW_ID, getJson, githubManifest, startService } from '../../e2e/service.ts';

/** The heap that remains for the service in a container of half a gigabyte. */
const SMALL_HEAP = { NODE_OPTIONS: '--max-old-space-size=256', SLUICE_LOG_LEVEL: 'error' };
/** Its output is a text of so many bytes of JSON. */
const CONFIG = `
import { defineConfig, defineHandler, z } from '@sluicehq/sluice';
export default defineConfig({
  handlers: [
    defineHandler({
      type: 'Leave',
      inputs: z.object({ bytes: z.number() }),
      run: ({ inputs }) => ({ kind: 'succeeded', output: 'x'.repeat(inputs.bytes - 2) }),
    }),
  ],
});
`;
const A_GIGABYTE = { seconds: 240, because: 'up to a gigabyte is written, step by step' };

const cel = (expression: string) => `\${${expression}}`;
const STEPS = {
  each: {
    type: 'ForEach',
    forEach: cel('trigger.body.items'),
    concurrencyLimit: 16,
    steps: { leave: { type: 'Leave', inputs: { bytes: cel('trigger.body.bytes') } } },
  },
  after: {
    type: 'Transform',
    inputs: { value: cel('size(steps.each.output)') },
    runAfter: { each: ['Succeeded'] },
  },
};

interface Listed {
  status: string;
  stepsTotal: number;
  steps: { stepKey: string; status: string; error: { code: string } | null; output: unknown }[];
}
interface Outline {
  run: { status: string };
  loops: { ended: number; failed: number }[];
}

async function post(url: string, body?: unknown): Promise<{ status: number; body: Record<string, unknown> }> {
  const init =
    body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(url, { method: 'POST', ...init });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

it.each([
  [600, 900_000, 'Failed'],
  [10_000, 100_000, 'Failed'],
  // The largest output that is kept; the next step reads it.
  [8_000, 1_000, 'Succeeded'],
])(
  'a loop of %i × %i bytes ends as %s under a small heap, whenever the process is killed',
  async (items, bytes, status) => {
    const workspace = await createWorkspace();
    await workspace.writeManifest('push.json', githubManifest({ steps: STEPS }));
    await writeFile(join(workspace.folder, 'sluice.config.ts'), CONFIG);
    const start = () => startService(workspace, SMALL_HEAP);
    let service = await start();
    const body = { items: Array.from({ length: items }, (_, index) => index), bytes };
    const { runId } = (await post(`${service.url}/flows/api/flows/${FLOW_ID}/trigger`, body)).body;
    const outline = () => getJson<Outline>(`${service.url}/flows/api/runs/${runId}/outline`);
    const begun = () =>
      getJson<{ total: number }>(`${service.url}/flows/api/runs/${runId}/iterations?loop=each&take=1`);
    const newest = () => getJson<{ status: string }[]>(`${service.url}/flows/api/runs?take=1`);
    for (const share of [0.2, 0.6, 0.99]) {
      await eventually(begun, ({ total }) => total >= items * share, A_GIGABYTE);
      await service.stop('SIGKILL');
      service = await start();
    }
    await eventually(newest, ([run]) => run !== undefined && run.status !== 'Running', A_GIGABYTE);
    expect(await outline()).toMatchObject({ run: { status }, loops: [{ ended: items, failed: 0 }] });

    const base = `${service.url}/flows/api/runs/${runId}`;
    const run = await getJson<Listed>(base);
    expect(run).toMatchObject({ status, stepsTotal: items + 2 });
    const loop = run.steps.find(({ stepKey }) => stepKey === 'each');
    if (status === 'Failed') {
      expect(loop).toMatchObject({ status: 'Failed', output: null, error: { code: 'output_too_large' } });
      expect(await post(`${base}/steps/each/retry`)).toMatchObject({
        status: 409,
        body: { reason: 'nothing_to_retry' },
      });
    } else {
      const after = await getJson<unknown>(`${base}/steps/after/output`);
      expect(after).toBe(items);
      expect(loop).toMatchObject({ output: { truncated: true } });
    }
    // All views of a run at once, three times.
    const views = ['', '/steps?skip=100&includeTotal=true', '/outline', '/events', '/lineage', '/iterations?loop=each'];
    for (let round = 0; round < 3; round += 1) await Promise.all(views.map((view) => getJson(`${base}${view}`)));
    const value = await fetch(`${base}/steps/each.7.leave/output`);
    expect((await value.text()).length).toBe(bytes);
    expect((await service.stop('SIGTERM')).code, service.output()).toBe(0);
  },
);

it('a run of sixty large children is read beside others under a small heap', async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest({ steps: STEPS }));
  await writeFile(join(workspace.folder, 'sluice.config.ts'), CONFIG);
  const service = await startService(workspace, SMALL_HEAP);
  const body = { items: Array.from({ length: 60 }, (_, index) => index), bytes: 900_000 };
  const { runId } = (await post(`${service.url}/flows/api/flows/${FLOW_ID}/trigger`, body)).body;
  const base = `${service.url}/flows/api/runs`;
  await eventually(
    () => getJson<Outline>(`${base}/${runId}/outline`),
    ({ run }) => run.status !== 'Running',
    A_GIGABYTE,
  );
  const answers = await Promise.all(
    Array.from({ length: 50 }, async () => (await (await fetch(`${base}/${runId}`)).text()).length),
  );
  expect(Math.max(...answers)).toBeLessThan(8 * 1024 * 1024);
  const heap = await readFile(`/proc/${service.child.pid}/status`, 'utf8').catch(() => '');
  console.info(/VmHWM:\s+(.*)/.exec(heap)?.[0] ?? 'the largest resident size is not told here');
  expect((await service.stop('SIGTERM')).code, service.output()).toBe(0);
});
