import { expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import type { DashboardServices } from '../../src/dashboard/services.ts';
import { StoreUnavailableError } from '../../src/errors.ts';
import { activeRunsJson, RUNS_AT_ONCE } from '../../src/features/runs/runs.ts';
import { acceptanceOf, aRun, id, T0 } from '../store/samples.ts';
import { startDashboard, useDashboard } from './fixture.ts';

const dashboard = useDashboard();

const active = (): Promise<{ id: string }[]> => dashboard.get('/flows/api/runs/active');

it('nothing in flight is an empty array', async () => {
  expect(await active()).toEqual([]);
});

it('every run in flight is named once, newest first, however many there are', async () => {
  const count = 2 * RUNS_AT_ONCE + 1;
  // Three start in each millisecond; these keep the order in which they were stored.
  const accepted = Array.from({ length: count }, (_, n) => acceptanceOf(n, { at: T0 + Math.floor(n / 3) }));
  await Promise.all(accepted.map((acceptance) => dashboard.store.accept(acceptance)));
  await dashboard.store.accept({ run: aRun({ id: id(1), status: 'Succeeded', completedAt: T0 }) });
  expect((await active()).map((run) => run.id)).toEqual(accepted.map(({ run }) => run.id).reverse());
});

it('leaves out only a run that ends between two parts', async () => {
  const extensions = { steps: stepTypes() } as unknown as DashboardServices['extensions'];
  const parts = [];
  for await (const part of activeRunsJson({ ...dashboard, extensions })) {
    if (parts.length === 1) await dashboard.store.cancelRun({ runId: id(1000 + 1), reason: null, at: T0 });
    parts.push(part);
  }
  const listed = JSON.parse(parts.join('')).map((run: { id: string }) => run.id);
  expect(listed).toHaveLength(2 * RUNS_AT_ONCE);
  expect(listed).not.toContain(id(1001));
  expect(new Set(listed).size).toBe(listed.length);
});

it('a failing store is an error, not half an answer', async () => {
  const listRuns = () => Promise.reject(new StoreUnavailableError('gone'));
  const broken = await startDashboard({ store: { ...dashboard.store, listRuns } });
  expect((await broken.app.inject('/flows/api/runs/active')).json()).toMatchObject({ statusCode: 503 });
});
