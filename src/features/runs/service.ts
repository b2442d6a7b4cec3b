import { type Finding, lasting, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import { rulesFor, servicePart } from '../../dashboard/services.ts';
import { runsAttention } from './attention.ts';
import { runControlRoutes } from './control.ts';
import { runFailureRoutes } from './failures.ts';
import { runHistoryRoutes } from './history.ts';
import { runOutlineRoutes } from './outline.ts';
import { runRoutes } from './runs.ts';
import { slotWaits } from './slot-waits.ts';
import { stepRoutes } from './steps.ts';
import { type LongStep, runsStore } from './store.ts';

/** Steps that have run for less time are not looked at. */
const LONG_STEP_MS = 60_000;
/** A step that is unusual took this many times the longest of those known, of so many at least. */
const UNUSUAL_FACTOR = 3;
const LEAST_KNOWN = 5;

/** Compared with what is known of the step: a flow of long steps is left alone. */
function longSteps(all: readonly LongStep[], { flows, now }: Situation): Finding<'step_running_long'>[] {
  return all.flatMap(({ flowId, runId, stepKey, startedAt, known, longestMs }): Finding<'step_running_long'>[] => {
    if (known < LEAST_KNOWN || now - startedAt < longestMs * UNUSUAL_FACTOR) return [];
    const usual = `in the ${known} newest runs in which it succeeded it took at most ${lasting(longestMs)}`;
    const message = `The step ${stepKey} of ${nameOf(flowId, flows)} has been running longer than usual, for ${lasting(now - startedAt)}: ${usual}`;
    const link = `/flows/runs/${runId}?step=${encodeURIComponent(stepKey)}`;
    return [{ kind: 'step_running_long', message, link, flowId, about: stepKey }];
  });
}

export const runs = servicePart({
  name: 'runs',
  routes: [runRoutes, runFailureRoutes, runHistoryRoutes, runOutlineRoutes, stepRoutes, runControlRoutes],
  attention: rulesFor(runsAttention, async (situation, { store }) => [
    ...slotWaits(situation),
    ...longSteps(await store.of(runsStore).listLongSteps({ startedBefore: situation.now - LONG_STEP_MS }), situation),
  ]),
});
