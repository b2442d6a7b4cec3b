import { expect, it } from 'vitest';
import { closedFlows } from '../../../src/features/attention/flows.ts';

const [OPEN, DISABLED, DRAINING, GONE] = ['open', 'disabled', 'draining', 'gone'].map(
  (_, n) => `0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a1${n}`,
) as [string, string, string, string];

interface Named {
  readonly onFailure?: string;
  readonly runs?: readonly string[];
}

function flowOf(name: string, id: string, { onFailure, runs = [] }: Named = {}) {
  const step = (flow: string) => ({ type: 'RunFlow', inputs: { flow }, runAfter: {} });
  const steps = Object.fromEntries(runs.map((flow, n) => [`step${n}`, step(flow)]));
  const draining = id === DRAINING ? { drainingSince: 1 } : {};
  return {
    record: { id, name, isEnabled: id !== DISABLED, ...draining },
    loaded: { manifest: { onFailure, steps } },
  } as unknown as Parameters<typeof closedFlows>[0][number];
}

const others = [flowOf('open', OPEN), flowOf('off', DISABLED), flowOf('drained', DRAINING)];
const itemsOf = (...flows: ReturnType<typeof flowOf>[]) => closedFlows([...flows, ...others]);

it('names failure flows that start no runs', () => {
  expect(itemsOf(flowOf('a', 'a', { onFailure: OPEN }))).toEqual([]);
  expect(itemsOf(flowOf('a', 'a', { onFailure: DISABLED }))).toEqual([
    {
      kind: 'failure_flow_closed',
      callerId: 'a',
      about: 'a',
      message: 'If a run of a fails, nothing starts: its failure flow off is disabled',
      link: `/flows/flows/${DISABLED}`,
    },
  ]);
  expect(itemsOf(flowOf('a', 'a', { onFailure: DRAINING }))[0]?.message).toContain('drained is draining');
  expect(itemsOf(flowOf('a', 'a', { onFailure: GONE }))[0]?.message).toContain(`${GONE} is not deployed`);
});

it('names flows that steps run and that are disabled or gone, and not those that are drained for a while', () => {
  const runs = [OPEN, DISABLED.toUpperCase(), DRAINING, GONE];
  expect(itemsOf(flowOf('a', 'a', { runs }))).toEqual([
    {
      kind: 'sub_flow_closed',
      callerId: 'a',
      about: 'a',
      message: 'Runs of a fail at steps that run off: that flow is disabled',
      link: `/flows/flows/${DISABLED}`,
    },
    expect.objectContaining({ message: `Runs of a fail at steps that run ${GONE}: that flow is not deployed` }),
  ]);
});
