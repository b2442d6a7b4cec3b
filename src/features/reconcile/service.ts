import { counted, type Finding, iso, type Situation } from '../../dashboard/attention/finding.ts';
import { type DashboardServices, type Host, rulesFor, servicePart } from '../../dashboard/services.ts';
import { DAY_MS, MINUTE_MS } from '../../model/clock.ts';
import { printable } from '../../model/text.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import { httpRequestStepTypes } from '../http-request/step-types.ts';
import { type Downtime, rhythmStore } from '../rhythm/store.ts';
import { type AskFailure, createAskLog } from './ask-log.ts';
import { reconcileAttention } from './attention.ts';
import { createReconciler, type Reconciler } from './reconciler.ts';
import { type Gap, readReconcileState, type Undecided } from './state.ts';
import { reconcileStore } from './store.ts';
import { GIVEN_UP_AFTER_DAYS, wasAsked } from './undecided.ts';

/** A gap is reported for this long after its last delivery was fetched. */
const TOLD_MS = DAY_MS;
/** Failures that pass by themselves are reported only after this time. */
const AWAY_MS = 10 * MINUTE_MS;
/** Failures that need a person to change something. */
const FOR_A_PERSON: ReadonlySet<string> = new Set<AskFailure>([
  'refused',
  'not_found',
  'not_permitted',
  'not_understood',
]);

/**
 * Lost deliveries that were fetched, logs that cannot be asked, and deliveries in a log that cannot be fetched so far:
 * one item of each kind for a trigger.
 */
async function reconciledItems(
  { triggers, now }: Situation,
  { store }: Pick<DashboardServices, 'store'>,
): Promise<Finding<'deliveries_missed' | 'reconcile_failing'>[]> {
  const [reconciliations, downtimes] = await Promise.all([
    store.of(reconcileStore).listReconciliations(),
    store.of(rhythmStore).listDowntimes(),
  ]);
  return triggers.flatMap((prepared): Finding<'deliveries_missed' | 'reconcile_failing'>[] => {
    const { reconcile } = prepared.trigger;
    const row = reconciliations.find((each) => sameTrigger(each, prepared.trigger));
    const state = row && readReconcileState(row.state);
    if (reconcile === undefined || state === undefined) return [];
    const { gap, failure, undecided } = state;
    const isTold = failure !== null && (FOR_A_PERSON.has(failure.kind) || now - failure.since >= AWAY_MS);
    return [
      ...(gap === null || now - gap.lastAt >= TOLD_MS ? [] : [gapItem(gap, prepared, downtimes)]),
      ...(isTold ? [failureItem(failure, prepared)] : []),
      ...(undecided.some(({ since }) => now - since >= AWAY_MS) ? [undecidedItem(undecided, prepared)] : []),
    ];
  });
}

const named = ({ trigger: { flowName, triggerKey } }: PreparedTrigger) => `${flowName}/${triggerKey}`;
const place = ({ trigger: { flowId, triggerKey } }: PreparedTrigger) => ({ flowId, triggerKey });

function gapItem(gap: Gap, prepared: PreparedTrigger, downtimes: readonly Downtime[]): Finding<'deliveries_missed'> {
  const { count, refused, refusedFor, givenUp, from, to, foundAt, lastAt } = gap;
  const causes = Object.entries(gap.causes).map(([cause, number]) => `${number} ${printable(cause)}`);
  const down = downtimes.find(({ startedAt, endedAt }) => startedAt < endedAt && startedAt <= to && endedAt >= from);
  const why =
    down === undefined ? [] : [`no process of the service ran from ${iso(down.startedAt)} to ${iso(down.endedAt)}`];
  const left = refused === 0 ? '' : `; ${refused} could not be accepted, the last for ${printable(refusedFor ?? '')}`;
  const never =
    givenUp === 0 ? '' : `; ${counted(givenUp, 'was', 'were')} given up, because the log did not tell the contents`;
  const message =
    `${counted(count + refused + givenUp, 'delivery', 'deliveries')} to ${named(prepared)} did not arrive (sent from ${iso(from)} to ${iso(to)}: ` +
    `${[...causes, ...why].join(', ')}). ${counted(count, 'was', 'were')} fetched from the log of the publisher and accepted${left}${never}`;
  return {
    kind: 'deliveries_missed',
    ...(refused + givenUp > 0 && { severity: 'error' as const }),
    message,
    link: `/flows/deliveries?flowId=${prepared.trigger.flowId}&since=${iso(foundAt)}&until=${iso(lastAt + MINUTE_MS)}`,
    ...place(prepared),
    about: `gap ${foundAt}`,
  };
}

function failureItem(
  failure: { readonly message: string; readonly since: number },
  prepared: PreparedTrigger,
): Finding<'reconcile_failing'> {
  const { message, since } = failure;
  const { reconcile } = prepared.trigger;
  return {
    kind: 'reconcile_failing',
    message: `${reconcile?.from} cannot be asked for lost deliveries to ${named(prepared)} (since ${iso(since)}): ${printable(message)}`,
    link: `/flows/flows/${prepared.trigger.flowId}`,
    ...place(prepared),
    about: 'reconcile',
  };
}

function undecidedItem(undecided: readonly Undecided[], prepared: PreparedTrigger): Finding<'reconcile_failing'> {
  const { flowId, reconcile } = prepared.trigger;
  const from = Math.min(...undecided.map(({ sentAt }) => sentAt));
  // Each delivery moves to the end of the list when it is asked for.
  const { why = '' } = undecided.findLast(wasAsked) ?? undecided.at(-1) ?? {};
  return {
    kind: 'reconcile_failing',
    message:
      `${counted(undecided.length, 'lost delivery', 'lost deliveries')} to ${named(prepared)} could not be fetched from ` +
      `${reconcile?.from} so far (the first was sent at ${iso(from)}; the last answer: ${printable(why)}). Each is asked for again, ` +
      `and given up ${GIVEN_UP_AFTER_DAYS} days after lookback`,
    link: `/flows/flows/${flowId}`,
    ...place(prepared),
    about: 'undecided',
  };
}

/** Created once everything that it works with exists. */
function reconcilerOf({ settings, extensions, clock, ...host }: Host): Reconciler {
  const { enforcementMode: defaultMode, publicUrl, maxBodyBytes, egressAllow } = settings;
  const ask = createAskLog({ egressAllow, hosts: extensions.of(httpRequestStepTypes), now: clock.now });
  const own = { clock, defaultMode, publicUrl, maxBodyBytes, ask, engine: host.engine(), holding: host.holding() };
  return createReconciler({ ...host, ...own });
}

export const reconcile = servicePart({
  name: 'reconcile',
  attention: rulesFor(reconcileAttention, reconciledItems),
  start: (host) => {
    let reconciler: Reconciler | undefined;
    return {
      onTriggers: () => reconciler?.sync(),
      begin() {
        reconciler = reconcilerOf(host);
        reconciler.start();
      },
      stop: async () => reconciler?.stop(),
    };
  },
});
