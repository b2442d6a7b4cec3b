import { type Finding, iso, lasting, type Situation } from '../../dashboard/attention/finding.ts';
import { type DashboardServices, rulesFor, servicePart } from '../../dashboard/services.ts';
import { sameTrigger, type TriggerName } from '../../model/trigger-name.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import { becauseOf, happened, isChosenFor, openRefusals, sinceFirst } from '../deliveries/refusals.ts';
import { rhythmAttention } from './attention.ts';
import { LEAST_REFUSALS } from './refusals.ts';
import { createRhythmWatch, type RhythmFinding } from './rhythm-watch.ts';
import { type RhythmRow, rhythmStore } from './store.ts';

/** Number of event kinds named; more are assumed to have one common cause. */
const NAMED_EVENTS = 3;
const EVENT_CHARACTERS = 60;

/** Triggers that are silent, began to refuse, or have an unusual volume: one item of each kind. */
export function rhythmItems(
  rhythms: readonly JudgedRhythm[],
  { triggers, now }: Pick<Situation, 'triggers' | 'now'>,
): Finding<RhythmFinding['kind']>[] {
  return triggers.flatMap((prepared): Finding<RhythmFinding['kind']>[] => {
    const own = rhythms.find((each) => sameTrigger(each, prepared.trigger));
    const found = own?.found ?? [];
    const silences = found.filter((each) => each.kind === 'trigger_silent');
    const others = found.filter((each) => each.kind !== 'trigger_silent');
    return [...silenceItem(silences, prepared, now), ...others.map((each) => itemOf(each, prepared))];
  });
}

/** Findings with their current state. */
interface JudgedRhythm extends TriggerName {
  readonly found: readonly (RhythmFinding & { readonly firstAt?: number | undefined; readonly because?: string })[];
}

/** Omits refusals whose deliveries were redelivered and accepted since; adds the cause of the others, if known. */
async function judgedNow(
  { flowId, triggerKey, found }: RhythmRow,
  at: number,
  services: DashboardServices,
): Promise<JudgedRhythm> {
  const now = await Promise.all(
    (found as unknown as readonly RhythmFinding[]).map(async (each) => {
      if (each.kind !== 'refusals_began') return [each];
      const open = await openRefusals({ ...each, flowId, triggerKey, reason: undefined }, services.store);
      if (open.count < LEAST_REFUSALS) return [];
      const because = await becauseOf({ flowId, triggerKey, reason: each.reason, at }, services);
      return [{ ...each, ...open, because }];
    }),
  );
  return { flowId, triggerKey, found: now.flat() };
}

type Silence = Extract<RhythmFinding, { kind: 'trigger_silent' }>;

const place = ({ trigger: { flowId, triggerKey } }: PreparedTrigger) => ({ flowId, triggerKey });
const named = ({ trigger: { flowName, triggerKey } }: PreparedTrigger) => `${flowName}/${triggerKey}`;

function silenceItem(
  silences: readonly Silence[],
  prepared: PreparedTrigger,
  now: number,
): Finding<'trigger_silent'>[] {
  const [first, ...others] = silences.toSorted((one, other) => one.from - other.from);
  if (first === undefined) return [];
  const { event, lastAt, from, everyMs } = first;
  const what = event === null ? 'no delivery' : `no delivery of the event ${eventName(event)}`;
  const since = lastAt === null ? 'none ever came' : `the last came at ${iso(lastAt)}`;
  const why =
    everyMs === null
      ? 'it was never silent for so long at this time of the week'
      : `its manifest expects one at least every ${prepared.trigger.inputs.webhookExpectEvery}`;
  const missing = others.flatMap((each) => each.event ?? []);
  const names = missing.slice(0, NAMED_EVENTS).map(eventName).join(', ');
  const left = missing.length - NAMED_EVENTS;
  const more = missing.length === 0 ? '' : `; nor any of ${names}${left > 0 ? ` and ${left} more` : ''}`;
  const message =
    `${named(prepared)} has had ${what} for ${lasting(now - from)} (${since}): ${why}${more}. ` +
    'Check at the publisher that its webhook is on and what it says of its attempts';
  return [
    {
      kind: 'trigger_silent',
      message,
      link: `/flows/flows/${prepared.trigger.flowId}`,
      ...place(prepared),
      about: 'silent',
    },
  ];
}

/** The name comes from a sender, so it is quoted and cut. */
const eventName = (event: string) => JSON.stringify(event.slice(0, EVENT_CHARACTERS));

function itemOf(
  found: Exclude<JudgedRhythm['found'][number], Silence>,
  prepared: PreparedTrigger,
): Finding<'volume_broken' | 'refusals_began'> {
  const { flowId } = prepared.trigger;
  if (found.kind === 'volume_broken') {
    const { from, to, count, usual } = found;
    const deliveries = count === 1 ? '1 delivery' : `${count} deliveries`;
    const message = `${named(prepared)} had ${deliveries} from ${iso(from)} to ${iso(to)}; about ${usual} are usual then`;
    const link = `/flows/deliveries?flowId=${flowId}&since=${iso(from)}&until=${iso(to)}`;
    return { kind: 'volume_broken', message, link, ...place(prepared), about: 'volume' };
  }
  const { count, reason, since, firstAt, because = '' } = found;
  const isChosen = isChosenFor(reason, prepared.mode);
  const what = isChosen ? `failed a gate and were accepted, because its mode is ${prepared.mode}` : 'were refused';
  return {
    kind: 'refusals_began',
    ...(isChosen && { severity: 'info' as const }),
    message: `${count} deliveries to ${named(prepared)} ${what} (${sinceFirst(firstAt, `from ${iso(since)} on`)}; none in the 7 days before). Most of them ${happened(reason)}${because}`,
    link: `/flows/deliveries?flowId=${flowId}&reason=${reason}&since=${iso(since)}`,
    ...place(prepared),
    about: 'refusals',
    insteadOf: 'refusals_rising',
  };
}

export const rhythm = servicePart({
  name: 'rhythm',
  attention: rulesFor(rhythmAttention, async (situation, services) => {
    const rows = await services.store.of(rhythmStore).listRhythms();
    return rhythmItems(await Promise.all(rows.map((row) => judgedNow(row, situation.now, services))), situation);
  }),
  arrivals: ({ store }) => store.of(rhythmStore).listRhythms(),
  start: (host) => ({ sweeper: createRhythmWatch(host) }),
});
