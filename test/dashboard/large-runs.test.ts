import { describe, expect, it } from 'vitest';
import { NOW, UNKNOWN_ID, useDashboard } from './fixture.ts';

const LOOPING_ID = '2d7a4d6c-52a1-4a0e-9c5f-1d6b7f0f3a56';
const LOOPING = {
  id: LOOPING_ID,
  name: 'looping',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: {
    lines: { type: 'ForEach', forEach: [], steps: { price: { type: 'NoOp' } } },
    ship: { type: 'NoOp', runAfter: { lines: ['Succeeded'] } },
  },
};
const LARGE = `${'ü'.repeat(40_000)}"`;

const dashboard = useDashboard('all', {}, [LOOPING]);
const ask = async (path: string, method: 'GET' | 'POST' = 'GET') => {
  const response = await dashboard.app.inject({ method, url: `/flows/api/runs/${path}` });
  return { status: response.statusCode, headers: response.headers, body: response.json() };
};

/** Starts a run whose children have these outputs, up to the first that is left out. */
async function looped(outputs: readonly string[], left = outputs.length): Promise<string> {
  const started = await dashboard.app.inject({ method: 'POST', url: `/flows/api/flows/${LOOPING_ID}/trigger` });
  const { runId } = started.json();
  for (let done = -1; done < left; ) {
    const { claims } = await dashboard.store.claimDue({ owner: 'me', now: NOW, leasedUntil: NOW + 60_000, limit: 100 });
    for (const claim of claims.filter((each) => each.runId === runId)) {
      const result =
        claim.stepKey === 'lines'
          ? ({ kind: 'loop', items: outputs, concurrency: 1 } as const)
          : ({ kind: 'succeeded', output: outputs[done] ?? null } as const);
      await dashboard.store.advance({ ...claim, at: NOW, input: { of: claim.stepKey }, result });
      done += 1;
    }
  }
  return runId;
}

describe('a run with large values', () => {
  it('shows their beginnings and lengths, and marks what it cut', async () => {
    const runId = await looped([LARGE, 'small']);
    const length = Buffer.byteLength(JSON.stringify(LARGE));
    const cut = { truncated: true, length, preview: JSON.stringify(LARGE).slice(0, 200) };
    const { body: run } = await ask(runId);
    expect(run).toMatchObject({ stepsTotal: 4 });
    expect(run.steps[1]).toMatchObject({ stepKey: 'lines.0.price', output: cut, truncated: true });
    expect(run.steps[1].attempts).toMatchObject([{ input: { of: 'lines.0.price' }, output: cut, truncated: true }]);
    expect(run.steps[2]).toMatchObject({ stepKey: 'lines.1.price', output: 'small' });
    expect(run.steps[2]).not.toHaveProperty('truncated');
    expect((await ask(`${runId}/steps/lines.0.price`)).body).toMatchObject({ output: cut, truncated: true });
  });

  it('gives each value whole on its own', async () => {
    const runId = await looped([LARGE]);
    const { body, headers } = await ask(`${runId}/steps/lines.0.price/output`);
    expect(body).toBe(LARGE);
    expect(headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'content-length': String(Buffer.byteLength(JSON.stringify(LARGE))),
    });
    expect((await ask(`${runId}/steps/lines.0.price/output?attempt=1`)).body).toBe(LARGE);
    expect((await ask(`${runId}/steps/lines.0.price/input`)).body).toEqual({ of: 'lines.0.price' });
  });

  it('gives null for a step without output or not reached yet, and 404 for an unknown step', async () => {
    const runId = await looped([]);
    expect((await ask(`${runId}/steps/ship/output`)).body).toBeNull();
    expect(await ask(`${runId}/steps/nobody/output`)).toMatchObject({ status: 404, body: { reason: 'unknown_step' } });
    expect(await ask(`${runId}/steps/ship/output?attempt=7`)).toMatchObject({ status: 404 });
    expect(await ask(`${UNKNOWN_ID}/steps/ship/output`)).toMatchObject({
      status: 404,
      body: { reason: 'unknown_run' },
    });
  });

  it('comes in pages, as a bare array by default', async () => {
    const runId = await looped(['a', 'b', 'c']);
    const { body: all } = await ask(`${runId}/steps`);
    expect(all.map(({ stepKey }: { stepKey: string }) => stepKey)).toEqual([
      'lines',
      'lines.0.price',
      'lines.1.price',
      'lines.2.price',
      'ship',
    ]);
    expect((await ask(`${runId}/steps?skip=1&take=2&includeTotal=true`)).body).toEqual({
      items: all.slice(1, 3),
      total: 5,
      skip: 1,
      take: 2,
    });
  });

  it('whose output exceeds what a loop keeps says why it cannot be retried', async () => {
    const mebibyte = 'x'.repeat(1024 * 1024 - 2);
    const runId = await looped(Array.from({ length: 9 }, () => mebibyte));
    expect((await ask(`${runId}/steps/lines`)).body).toMatchObject({
      status: 'Failed',
      output: null,
      error: { code: 'output_too_large' },
    });
    expect(await ask(`${runId}/steps/lines/retry`, 'POST')).toMatchObject({
      status: 409,
      body: { reason: 'nothing_to_retry', message: expect.stringContaining('no iteration failed') },
    });
    expect((await ask(runId)).body.status).toBe('Failed');
  });
});

describe('a cancelled run', () => {
  it('has no pending step in any view', async () => {
    const runId = await looped(['a', 'b'], 1);
    expect((await ask(`${runId}/cancel`, 'POST')).status).toBe(200);
    const views = [
      (await ask(runId)).body.steps,
      (await ask(`${runId}/steps`)).body,
      [(await ask(`${runId}/steps/ship`)).body],
      (await ask(`${runId}/outline`)).body.steps,
      (await ask(`${runId}/iterations?loop=lines`)).body.items.flatMap(({ steps }: { steps: object[] }) => steps),
    ];
    for (const steps of views) {
      expect(steps.length).toBeGreaterThan(0);
      for (const step of steps) {
        expect(['Succeeded', 'Failed', 'Skipped']).toContain(step.status);
        if (step.status === 'Skipped') expect(step.skipReason).toBe('The run was cancelled.');
        expect(step.completedAt).not.toBeNull();
      }
    }
  });
});
