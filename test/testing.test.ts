import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { runFlow } from '../src/testing.ts';

const sample = async (name: string): Promise<unknown> =>
  JSON.parse(await readFile(join(import.meta.dirname, '../manifests', name), 'utf8'));
const startAt = new Date('2026-03-01T12:00:00Z');

describe('runFlow', () => {
  it.each([
    [{ approved: true }, 'Succeeded', 'Skipped'],
    [{ approved: false }, 'Skipped', 'Succeeded'],
  ])('hands a signal %j to the step that waits for it', async (decision, grant, refuse) => {
    const run = await runFlow(await sample('approval.json'), { body: { what: 'a raise' }, signals: { decision } });
    expect(run).toMatchObject({
      status: 'Succeeded',
      steps: { decision: { output: decision }, grant: { status: grant }, refuse: { status: refuse } },
    });
  });

  it('hands headers on in lower case, however the test writes them', async () => {
    const manifest = {
      id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
      version: '1',
      triggers: { byHand: { type: 'manual' } },
      steps: { kind: { type: 'Transform', inputs: { value: `\${trigger.headers['x-github-event']}` } } },
    };
    const run = await runFlow(manifest, { headers: { 'X-GitHub-Event': 'push' } });
    expect(run.steps.kind).toMatchObject({ status: 'Succeeded', output: 'push' });
  });

  it('lets time jump over what waits', async () => {
    const run = await runFlow(await sample('approval.json'), { body: { what: 'a raise' }, startAt });
    expect(run).toMatchObject({
      status: 'Succeeded',
      completedAt: Date.parse('2026-03-04T12:00:00Z'),
      steps: { decision: { error: { code: 'signal_timeout' } }, lapse: { status: 'Succeeded' } },
    });
  });

  it('runs loops and conditions', async () => {
    const lines = [
      { sku: 'A', quantity: 2, unitPrice: 10 },
      { sku: 'B', quantity: 1, unitPrice: 5 },
    ];
    const run = await runFlow(await sample('order.json'), { body: { lines } });
    expect(run).toMatchObject({
      status: 'Succeeded',
      steps: {
        'lines.0.price': { output: 20 },
        lines: { output: ['line 0: pack 2 of A, 20', 'line 1: pack 1 of B, 5'] },
        gift: { status: 'Skipped' },
        ship: { output: '2 lines are shipped' },
      },
    });
  });

  it('takes stubs in the place of handlers, and they may wait, fail or throw', async () => {
    let polls = 0;
    const run = await runFlow(await sample('export-poll.json'), {
      body: { exportId: 7 },
      handlers: {
        HttpRequest: ({ inputs, now }) => {
          expect(inputs).toMatchObject({ url: 'https://api.example.com/exports/7' });
          polls += 1;
          if (polls < 3) return { kind: 'waiting', until: now() + 60_000 };
          return { status: 200, body: { url: 'there' } };
        },
      },
      startAt,
    });
    expect(run).toMatchObject({
      status: 'Succeeded',
      completedAt: startAt.getTime() + 125_000,
      steps: { tell: { output: 'the export is at there' } },
    });
    const failed = await runFlow(await sample('export-poll.json'), {
      body: { exportId: 7 },
      handlers: { HttpRequest: () => Promise.reject(new Error('no line')) },
    });
    expect(failed).toMatchObject({ status: 'Failed', steps: { ready: { error: { message: 'no line' } } } });
  });

  it('returns a run that waits for a signal that is never sent as Running', async () => {
    const steps = { wait: { type: 'WaitForSignal', inputs: { signalName: 'never' } } };
    const run = await runFlow({ id: '0b7c9d10-0000-4000-8000-000000000001', version: '1', steps });
    expect(run).toMatchObject({ status: 'Running', steps: { wait: { status: 'Pending' } } });
  });

  it('throws with every mistake of the manifest', async () => {
    const steps = { a: { type: 'Nope' } };
    await expect(runFlow({ id: '0b7c9d10-0000-4000-8000-000000000001', version: '1', steps })).rejects.toThrow(
      /steps\.a\.type: is not a known step type/,
    );
  });
});
