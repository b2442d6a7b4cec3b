import { type Finding, LONG_SLOT_WAIT_MS, lasting, nameOf, type Situation } from '../../dashboard/attention/finding.ts';
import { rulesFor, servicePart } from '../../dashboard/services.ts';
import { keptForIdle } from '../../flows/slots.ts';
import type { Severity } from '../../model/attention.ts';
import type { SlotWait } from '../../store/store.ts';
import { runsAttention } from './attention.ts';
import { runControlRoutes } from './control.ts';
import { runFailureRoutes } from './failures.ts';
import { runHistoryRoutes } from './history.ts';
import { runOutlineRoutes } from './outline.ts';
import { runRoutes } from './runs.ts';
import { stepRoutes } from './steps.ts';
import { type LongStep, runsStore } from './store.ts';

/** Steps that have run for less time are never reported. */
const LONG_STEP_MS = 60_000;
/** A step is unusual at this multiple of its longest known duration, if at least LEAST_KNOWN durations are known. */
const UNUSUAL_FACTOR = 3;
const LEAST_KNOWN = 5;

/** Compares a step with its own past runs, so steps that always take long are not reported. */
function longSteps(all: readonly LongStep[], { flows, now }: Situation): Finding<'step_running_long'>[] {
  return all.flatMap(({ flowId, runId, stepKey, startedAt, known, longestMs }): Finding<'step_running_long'>[] => {
    if (known < LEAST_KNOWN || now - startedAt < longestMs * UNUSUAL_FACTOR) return [];
    const usual = `in the ${known} newest runs in which it succeeded it took at most ${lasting(longestMs)}`;
    const message = `The step ${stepKey} of ${nameOf(flowId, flows)} has been running longer than usual, for ${lasting(now - startedAt)}: ${usual}`;
    const link = `/flows/runs/${runId}?step=${encodeURIComponent(stepKey)}`;
    return [{ kind: 'step_running_long', message, link, flowId, about: stepKey }];
  });
}

/** A slot is free for a moment between steps. Below this share of the slots for all flows, more would not help. */
const TAKEN_SHARE = 0.9;

/** A flow limited by its own manifest waits on purpose. The others share one item: one setting frees them all. */
function slotWaits({ slots, flows, now }: Situation): Finding<'steps_waiting_for_slot'>[] {
  const item = (severity: Severity, waits: readonly SlotWait[], why: string) => {
    const most = waits.reduce((one, other) => (other.count > one.count ? other : one));
    const name = nameOf(most.flowId, flows);
    const of = waits.length === 1 ? name : `${waits.length} flows, most of them of ${name},`;
    const oldestMs = now - Math.min(...waits.map(({ oldestDueAt }) => oldestDueAt));
    const wait = `for over ${LONG_SLOT_WAIT_MS / 1000} s (the oldest for ${lasting(oldestMs)})`;
    return {
      kind: 'steps_waiting_for_slot' as const,
      severity,
      message: `${stepsWait(waits, of)} ${wait}: ${why}`,
      link: `/flows/runs?status=Running&flowId=${most.flowId}`,
    };
  };
  const held = slots.waits.flatMap((wait) => {
    if (wait.limit === null) return [];
    const { stepType, concurrency } = wait.limit;
    const what = stepType === null ? 'the flow' : `its ${stepType} steps`;
    const why = `its manifest limits ${what} to ${concurrency} at once, as intended; raise \`concurrency\` there if that is too slow`;
    return [item('info', [wait], why)];
  });
  const others = slots.waits.filter(({ limit }) => limit === null);
  if (others.length === 0) return held;
  // All flows have one cause, whichever has the most waiting steps.
  const link = slots.alone === null ? {} : { link: `/flows/runs/${slots.alone.runId}` };
  return [{ ...item('warning', others, whyNoSlot(slots)), ...link, flowId: null, about: 'all flows' }, ...held];
}

function stepsWait(waits: readonly SlotWait[], flow: string): string {
  const count = waits.reduce((sum, each) => sum + each.count, 0);
  if (waits.some(({ isMore }) => isMore)) return `More than ${count} steps of ${flow} have waited for a slot`;
  return count === 1 ? `1 step of ${flow} has waited for a slot` : `${count} steps of ${flow} have waited for a slot`;
}

function whyNoSlot({ running, concurrency, alone }: Situation['slots']): string {
  if (alone !== null) {
    return `the step ${alone.stepKey} of a run runs alone, because it was running when the process died`;
  }
  const taken = `${running} of ${concurrency} slots are taken`;
  const kept = keptForIdle(concurrency);
  if (running >= (concurrency - kept) * TAKEN_SHARE) {
    const others =
      kept > 0 && running < concurrency ? `, and the last ${kept} are kept for flows that run no step` : '';
    return `${taken}${others}; raise SLUICE_STEP_CONCURRENCY`;
  }
  return `only ${taken}, so more slots would not help; check the log and the load of CPU and disk`;
}

export const runs = servicePart({
  name: 'runs',
  routes: [runRoutes, runFailureRoutes, runHistoryRoutes, runOutlineRoutes, stepRoutes, runControlRoutes],
  attention: rulesFor(runsAttention, async (situation, { store }) => [
    ...slotWaits(situation),
    ...longSteps(await store.of(runsStore).listLongSteps({ startedBefore: situation.now - LONG_STEP_MS }), situation),
  ]),
});
