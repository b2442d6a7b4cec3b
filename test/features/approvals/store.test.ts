import { expect, it } from 'vitest';
import { approvalsStore } from '../../../src/features/approvals/store.ts';
import type { Claim, StepResult, Store } from '../../../src/store/store.ts';
import { openStore } from '../../flows/fixture.ts';
import { claimAll, finish, graphOf, minute, startRun, succeeded, T0 } from '../../store/samples.ts';

const waits: StepResult = { kind: 'waiting', state: 1, dueAt: T0 + minute, signalName: 'ok' };
const timedOut: StepResult = { kind: 'failed', error: { code: 'signal_timeout', message: 'late', retryable: false } };

async function claimOf(store: Store, stepKey: string, now = T0): Promise<Claim> {
  const claim = (await claimAll(store, now)).find((each) => each.stepKey === stepKey);
  if (claim === undefined) throw new Error(`the step ${stepKey} is not due`);
  return claim;
}

const answer = (store: Store, runId: string, stepKey: string, body: string) =>
  store.of(approvalsStore).answerWait({ runId, stepKey, signalName: 'ok', body, at: T0 + 7 });

it('an answer wakes the step that waits, once, and no other that waits for the same signal', async () => {
  const store = await openStore();
  const runId = await startRun(store, graphOf({ one: [], two: [] }));
  for (const claim of await claimAll(store)) await finish(store, claim, waits);
  expect(await answer(store, runId, 'two', 'yes')).toBe('taken');
  expect(await answer(store, runId, 'two', 'no')).toBe('gone');
  const due = await claimAll(store, T0 + 8);
  expect(due).toMatchObject([{ stepKey: 'two', resumed: { signal: { body: 'yes' } } }]);
  expect(await answer(store, runId, 'two', 'no')).toBe('gone');
  expect(await answer(store, runId, 'one', 'no')).toBe('taken');
});

it('an answer is kept for a step that has not begun, or not waited yet', async () => {
  const store = await openStore();
  const runId = await startRun(store, graphOf({ first: [], one: ['first'], two: ['first'] }));
  expect(await answer(store, runId, 'one', 'early')).toBe('taken');
  await finish(store, await claimOf(store, 'first'), succeeded());
  const claims = await claimAll(store);
  expect(await answer(store, runId, 'two', 'while it runs')).toBe('taken');
  for (const claim of claims) await finish(store, claim, waits);
  const due = await claimAll(store, T0 + 8);
  const bodies = due.map(({ stepKey, resumed }) => [stepKey, resumed?.signal?.body]);
  expect(bodies.toSorted()).toEqual([
    ['one', 'early'],
    ['two', 'while it runs'],
  ]);
});

it('no answer is taken that a step whose time is over would not see', async () => {
  const store = await openStore();
  const runId = await startRun(store, graphOf({ one: [] }));
  await finish(store, await claimOf(store, 'one'), waits);
  const late = await claimOf(store, 'one', T0 + minute);
  expect(late.resumed?.signal).toBeNull();
  expect(await answer(store, runId, 'one', 'late')).toBe('busy');
  await finish(store, late, timedOut, T0 + minute);
  expect(await answer(store, runId, 'one', 'later')).toBe('gone');
});

it('no answer is taken by a run that was told to stop, or is not there', async () => {
  const store = await openStore();
  const runId = await startRun(store, graphOf({ one: [], busy: [] }));
  await claimOf(store, 'busy');
  await store.cancelRun({ runId, reason: null, at: T0 });
  expect((await store.findRun(runId))?.status).toBe('Running');
  expect(await answer(store, runId, 'one', 'no')).toBe('gone');
  expect(await answer(store, '00000000-0000-4000-8000-000000000000', 'one', 'no')).toBe('gone');
});
