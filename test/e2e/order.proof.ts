import { createHmac, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { eventually, GITHUB_SECRET, getJson, githubManifest } from './service.ts';
import { useService } from './used-service.ts';

const cel = (expression: string) => `\${${expression}}`;
/** A signal continues the run; a signal of 0 fails it. */
const steps = {
  go: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
  check: { type: 'Transform', inputs: { value: cel('1 / int(steps.go.output)') }, runAfter: { go: ['Succeeded'] } },
};
const flow = { serialize: 'trigger.body.order', serializeOnFailure: 'stop' };

const { at, post } = useService(async ({ writeManifest }) => {
  await writeManifest('push.json', githubManifest({ steps, flow }));
  return { SLUICE_ENFORCEMENT_MODE: 'Audit' };
});

/** Returns the run's id. */
async function deliver(order: unknown, { isSigned = true } = {}): Promise<string> {
  const body = { order, nonce: randomUUID() };
  const signature = createHmac('sha256', isSigned ? GITHUB_SECRET : 'a guess').update(JSON.stringify(body));
  const { status, body: answer } = await post('webhook/push', body, {
    'x-hub-signature-256': `sha256=${signature.digest('hex')}`,
    'x-github-delivery': randomUUID(),
  });
  expect(status).toBe(200);
  return String(answer.runId);
}

interface Shown {
  readonly id: string;
  readonly status: string;
  readonly waitingFor: readonly { readonly for: string; readonly runId: string | null }[];
}
const shown = (runId: string) => getJson<Shown>(at(`runs/${runId}`));
const waitsFor = (runId: string, kind: string) =>
  eventually(
    () => shown(runId),
    ({ waitingFor }) => waitingFor.some((wait) => wait.for === kind),
  );
const isBehind = async (runId: string, ahead: string) =>
  expect((await shown(runId)).waitingFor).toMatchObject([{ for: 'order', stepKey: null, runId: ahead }]);

/** Ends a run that has its turn. */
async function end(runId: string, result = 1): Promise<string> {
  await waitsFor(runId, 'signal');
  await post(`runs/${runId}/signals/go`, result);
  const { status } = await eventually(
    () => shown(runId),
    (run) => run.status !== 'Running',
  );
  return status;
}
const attention = async () =>
  (await getJson<{ kind: string; message: string }[]>(at('attention'))).filter(({ kind }) => kind.startsWith('order_'));

it('a stranger under Audit neither delays nor stops what is verified', async () => {
  const strangers = [await deliver(1, { isSigned: false }), await deliver(1, { isSigned: false })] as const;
  const own = await deliver(1);
  await waitsFor(own, 'signal');
  await isBehind(strangers[1], strangers[0]);
  // A rerun by hand is still the stranger's delivery.
  expect(await end(strangers[0], 0)).toBe('Failed');
  const { body } = await post(`runs/${strangers[0]}/rerun`);
  await isBehind(String(body.runId), strangers[1]);
  expect(await attention()).toEqual([]);
  const next = await deliver(1);
  await isBehind(next, own);
  expect(await end(own)).toBe('Succeeded');
  expect(await end(next)).toBe('Succeeded');
});
