import { expect, it } from 'vitest';
import { entryOf } from '../../../src/model/planner.ts';
import { claim, type DueStep } from '../../../src/store/decisions/claim.ts';
import { type Decision, decideNow } from '../../../src/store/decisions/decision.ts';
import { advance } from '../../../src/store/decisions/follow.ts';
import type { Port } from '../../../src/store/decisions/port.ts';
import type { RunRows } from '../../../src/store/decisions/rows.ts';
import { graphOf } from '../../flows/graphs.ts';
import { aMemoryRun, memoryRows } from './memory-rows.ts';

function* portOf(rows: RunRows): Decision<Port> {
  return yield* rows.port();
}

it('keeps what a large graph taught about its open steps until the run has ended, and no longer', () => {
  const keys = Array.from({ length: 100 }, (_, n) => `s${n}`);
  const graph = graphOf({ ...Object.fromEntries(keys.map((key) => [key, []])), join: keys });
  const memory = aMemoryRun(entryOf({ steps: graph }).steps.map(({ stepKey }) => stepKey));
  const rows = memoryRows(memory, graph, (reads) => reads);
  const caches = new Set<{ readonly size: number }>();
  const port = decideNow(portOf(rows));
  const { kept } = port;
  Object.assign(port, {
    kept: (make: () => { readonly size: number }) => {
      const made = kept(make);
      caches.add(made);
      return made;
    },
  });
  const scopes = () => [...caches].reduce((sum, { size }) => sum + (size ?? 0), 0);
  const end = (stepKey: string) => {
    const step = memory.steps.get(stepKey);
    const due: DueStep = {
      ...{ runId: 'run', stepKey, flowId: 'flow', revision: 1, stepType: 'NoOp', status: 'Pending', wait: null },
      ...{ attemptCount: 0, attemptBase: 0, interruptions: 0, deaths: 0, loneDeaths: 0, leaseToken: null },
      ...{ dueAt: step?.dueAt ?? 0, triggerKey: 'manual', traceparent: null },
      ...{ cancelRequestedAt: null, timedOutAt: null },
    };
    const { token } = decideNow(claim(rows, due, { holder: 'h', now: 1, leasedUntil: 30 }));
    const result = { kind: 'succeeded', output: null } as const;
    return decideNow(advance(rows, { runId: 'run', stepKey, token, result, at: 2, input: null }));
  };
  for (const key of keys) end(key);
  expect(scopes()).toBe(1);
  expect(end('join')).toMatchObject({ runStatus: 'Succeeded' });
  expect(scopes()).toBe(0);
});
