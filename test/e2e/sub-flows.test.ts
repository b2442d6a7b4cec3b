import { expect, it } from 'vitest';
import { eventually, getJson } from './service.ts';
import { useService } from './used-service.ts';

const ORDER = '8d2c7b14-56e3-4f0a-b9c8-72a4e1d05f31';
const CHARGE = '8d2c7b14-56e3-4f0a-b9c8-72a4e1d05f30';

const cel = (expression: string) => `\${${expression}}`;
const manifestOf = (id: string, name: string, steps: object) => ({
  id,
  name,
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps,
});
const order = manifestOf(ORDER, 'Order', {
  charge: { type: 'RunFlow', inputs: { flow: CHARGE, body: { n: cel('trigger.body.n') } } },
  log: {
    type: 'LogMessage',
    inputs: { message: `charged ${cel('steps.charge.output.output')}` },
    runAfter: { charge: ['Succeeded'] },
  },
});
const charge = manifestOf(CHARGE, 'Charge', {
  ok: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
  sum: { type: 'Transform', inputs: { value: cel('trigger.body.n * 2') }, runAfter: { ok: ['Succeeded'] } },
});

const { at, post, restart } = useService(async ({ writeManifest }) => {
  await writeManifest('order.json', order);
  await writeManifest('charge.json', charge);
});

interface ShownRun {
  readonly id: string;
  readonly status: string;
  readonly waitingFor: readonly { readonly for: string; readonly runId: string | null }[];
  readonly steps: readonly { readonly stepKey: string; readonly output: unknown }[];
}

/** Starts a run; returns its id and that of the run it waits for. */
async function start(body: unknown): Promise<{ parent: string; child: string }> {
  const { runId: parent } = (await post<{ runId: string }>(`flows/${ORDER}/trigger`, body)).body;
  const { waitingFor } = await eventually(
    () => getJson<ShownRun>(at(`runs/${parent}`)),
    (run) => run.waitingFor.length > 0,
  );
  expect(waitingFor).toMatchObject([{ for: 'run', stepKey: 'charge' }]);
  return { parent, child: waitingFor[0]?.runId ?? '' };
}

const ended = (runId: string) =>
  eventually(
    () => getJson<ShownRun>(at(`runs/${runId}`)),
    ({ status }) => status !== 'Running',
  );

it('a run waits for the run that it started, also over a kill, and goes on with its output', async () => {
  const { parent, child } = await start({ n: 21 });
  await restart('SIGKILL');
  expect(await getJson(at(`runs/${parent}/lineage`))).toMatchObject({ derived: [{ id: child, relation: 'subFlow' }] });
  expect(await getJson(at(`runs/${child}/lineage`))).toMatchObject({ source: { id: parent, relation: 'subFlow' } });
  await post(`runs/${child}/signals/go`);
  const { status, steps } = await ended(parent);
  expect(status).toBe('Succeeded');
  expect(steps.map(({ output }) => output)).toEqual([{ runId: child, status: 'Succeeded', output: 42 }, 'charged 42']);
  expect(await getJson(at(`runs/${parent}/outline`))).toMatchObject({
    graph: { charge: { flow: { flowId: CHARGE, flowName: 'Charge' } } },
    steps: [{ subRunId: child }, { subRunId: null }],
  });
});

it('a cancel goes down, and a cancel of the other run alone fails the step', async () => {
  const both = await start({ n: 1 });
  await post(`runs/${both.parent}/cancel`, { reason: 'not wanted' });
  expect(await ended(both.child)).toMatchObject({ status: 'Cancelled' });
  const one = await start({ n: 1 });
  await post(`runs/${one.child}/cancel`, { reason: 'too dear' });
  expect(await ended(one.parent)).toMatchObject({
    status: 'Failed',
    failure: { stepKey: 'charge', code: 'sub_run_cancelled', message: expect.stringContaining('too dear') },
  });
});

it('a deploy changes neither which flow a run in flight runs nor in which revision', async () => {
  const { runId: parent } = (await post<{ runId: string }>(`flows/${ORDER}/trigger`, { n: 3 })).body;
  const sum = { type: 'Transform', inputs: { value: cel('trigger.body.n * 2') } };
  const changed = { ...charge, version: '2', steps: { ...charge.steps, sum } };
  const plan = await fetch(at(`flows/${CHARGE}?dryRun=true`), { method: 'PUT', body: JSON.stringify(changed) });
  expect(await plan.json()).toMatchObject({ action: 'refused', refusal: expect.stringContaining(parent) });
  const deployed = await fetch(at(`flows/${CHARGE}?allow=caution`), { method: 'PUT', body: JSON.stringify(changed) });
  expect(deployed.status).toBe(200);
  const { id } = await eventually(
    async () => (await getJson<ShownRun[]>(at(`runs?flowId=${CHARGE}&status=Running`)))[0] ?? { id: '' },
    (run) => run.id !== '',
  );
  const shown = await eventually(
    () => getJson<ShownRun>(at(`runs/${id}`)),
    ({ waitingFor }) => waitingFor.length > 0,
  );
  expect(shown).toMatchObject({ revision: 1, waitingFor: [{ for: 'signal' }] });
  await post(`runs/${id}/signals/go`);
  expect(await ended(parent)).toMatchObject({ status: 'Succeeded' });
});
