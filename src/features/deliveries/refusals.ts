import {
  type Finding,
  iso,
  LOOK_BACK_HOURS,
  nameOf,
  RECENT_HOURS,
  type Situation,
  startOf,
} from '../../dashboard/attention/finding.ts';
import { causesOf, type DashboardServices } from '../../dashboard/services.ts';
import type { Reason } from '../../model/delivery.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import type { DeliveryCount, Store } from '../../store/store.ts';
import { deliveriesStore } from './store.ts';

/** At least this many refusals in the recent hours, and this many times the usual number, need attention. */
const RISING_COUNT = 20;

const RISING_FACTOR = 5;

/** Texts on these deliveries, refused or not, by reason. */
const WHAT_HAPPENED = {
  body_too_large: 'were larger than the limit',
  unknown_flow: 'were sent to a URL that no webhook has',
  flow_unreadable: 'were sent to a trigger that is not served and got 503',
  flow_disabled: 'were refused because the flow is disabled or draining, or its trigger is off',
  encoding_not_supported: 'had a content-encoding or charset that is not known',
  invalid_encoding: 'were not in the encoding that their content-encoding says',
  invalid_json: 'claim to be JSON but are not',
  ip_not_allowed: 'came from an address that is not on the allow list',
  ip_denied: 'came from an address on the deny list',
  unverified_rate_limited: 'exceeded the rate limit of their address',
  rate_limited: 'exceeded the rate limit',
  signature_missing: 'had no signature',
  signature_malformed: 'had a signature that does not have the format of the scheme',
  signature_mismatch: 'had a signature that does not match',
  key_not_configured: 'could not be verified because their trigger has no key',
  sha1_not_allowed: 'could not be verified because SHA-1 is turned off',
  verifier_error: 'could not be checked because a verifier or gate failed',
  verification_unavailable:
    'could not be judged because a certificate or keys could not be fetched, or the body schema got no turn',
  timestamp_missing: 'had no timestamp',
  timestamp_malformed: 'had a timestamp that cannot be read',
  timestamp_skew: 'had a timestamp that is too old or too far in the future',
  body_schema: 'had a body that does not match the schema',
  idempotency_conflict: 'used an Idempotency-Key again, with another body',
  nonce_replayed: 'repeated one that was already accepted',
  store_unavailable: 'could not be stored and got 503',
} as const satisfies Record<Reason, string>;

/** For these reasons, every mode treats a delivery the same; the other reasons come from gates. */
const IN_EVERY_MODE: readonly Reason[] = [
  'body_too_large',
  'unknown_flow',
  'flow_unreadable',
  'flow_disabled',
  'encoding_not_supported',
  'invalid_encoding',
  'invalid_json',
  'idempotency_conflict',
  'store_unavailable',
];

export const happened = (reason: Reason) => WHAT_HAPPENED[reason];

/** Whether deliveries pass although a gate failed, because somebody chose that mode. */
export function isChosenFor(reason: Reason, mode: EnforcementMode | undefined): boolean {
  return mode !== undefined && mode !== 'Enforce' && !IN_EVERY_MODE.includes(reason);
}

/** Refusals in one place, and the start of their count. */
interface Refused extends Pick<DeliveryCount, 'flowId' | 'triggerKey'> {
  /** Undefined for all reasons. */
  readonly reason: Reason | undefined;
  readonly count: number;
  readonly since: number;
}

/** Refusals that nobody has redelivered successfully, and the time of the first of all refusals. */
interface OpenRefusals {
  readonly count: number;
  /** Undefined if the log does not hold all of them. */
  readonly firstAt: number | undefined;
}

type Log = Pick<Store, 'of'>;

/** Leaves out deliveries that were accepted when redelivered: they need no attention any more. */
export async function openRefusals(
  { flowId, triggerKey, reason, count, since }: Refused,
  store: Log,
): Promise<OpenRefusals> {
  const logged = await store.of(deliveriesStore).countRefused({ flowId, triggerKey, reason, since });
  const firstAt = logged.count < count ? undefined : (logged.firstAt ?? undefined);
  return { count: count - logged.redelivered, firstAt };
}

/** Says `since` only with the time of the first refusal, never with the start of the window. */
export const sinceFirst = (firstAt: number | undefined, window: string) =>
  firstAt === undefined ? window : `since ${iso(firstAt)}`;

/** Known causes, as sentences to add to another one. */
export async function becauseOf(refused: Parameters<typeof causesOf>[0], services: DashboardServices): Promise<string> {
  return (await causesOf(refused, services)).map((cause) => `. ${cause}`).join('');
}

export async function risingRefusals(
  { deliveries, triggers, flows, now }: Situation,
  services: DashboardServices,
): Promise<Finding<'refusals_rising'>[]> {
  const since = startOf(now, RECENT_HOURS - 1);
  const rising = countRefusals(deliveries).flatMap((each) => {
    const usual = Math.round((each.before / (LOOK_BACK_HOURS - RECENT_HOURS + 1)) * RECENT_HOURS);
    return each.recent < least(usual) ? [] : [{ ...each, usual }];
  });
  const found = await Promise.all(
    rising.map(async ({ usual, recent, ...refused }): Promise<Finding<'refusals_rising'>[]> => {
      const { flowId, triggerKey, reason } = refused;
      const asked = { ...refused, count: recent, since: Date.parse(since) };
      const { count, firstAt } = await openRefusals(asked, services.store);
      if (count < least(usual)) return [];
      const place = flowId === null ? '' : `${nameOf(flowId, flows)}${triggerKey === null ? '' : `/${triggerKey}`}`;
      const to = place === '' ? '' : ` to ${place}`;
      const prepared = triggers.find(({ trigger }) => sameTrigger(trigger, { flowId, triggerKey }));
      const isChosen = isChosenFor(reason, prepared?.mode);
      const passed = isChosen ? `; all were accepted, because its mode is ${prepared?.mode}` : '';
      const because = await becauseOf({ ...refused, at: now }, services);
      const when = sinceFirst(firstAt, 'in this hour and the one before');
      return [
        {
          kind: 'refusals_rising',
          ...(isChosen && { severity: 'info' }),
          message: `${count} deliveries${to} ${WHAT_HAPPENED[reason]} (${when}; normally ${usual})${passed}${because}`,
          link: `/flows/deliveries?${flowId === null ? '' : `flowId=${flowId}&`}reason=${reason}&since=${since}`,
          flowId,
          triggerKey,
        },
      ];
    }),
  );
  return found.flat();
}

const least = (usual: number) => Math.max(RISING_COUNT, usual * RISING_FACTOR);

interface Refusals extends Pick<DeliveryCount, 'flowId' | 'triggerKey'> {
  readonly reason: Reason;
  recent: number;
  before: number;
}

/** Counts by trigger and reason; deliveries of no flow by reason only. */
function countRefusals(deliveries: Situation['deliveries']): Refusals[] {
  const counted = new Map<string, Refusals>();
  for (const { flowId, triggerKey, reason, rejected, count, recent } of deliveries) {
    if (reason === null || !rejected) continue;
    const key = `${reason} ${flowId} ${triggerKey}`;
    const known = counted.get(key) ?? { flowId, triggerKey, reason, recent: 0, before: 0 };
    known.recent += recent;
    known.before += count - recent;
    counted.set(key, known);
  }
  return [...counted.values()];
}

/** Deliveries to a disabled flow, or to a trigger that its manifest switches off. */
export async function disabledFlows(
  { deliveries, flows, triggers, now }: Situation,
  store: Log,
): Promise<Finding<'deliveries_to_disabled_flow'>[]> {
  const reason = 'flow_disabled';
  const since = startOf(now, LOOK_BACK_HOURS);
  const closed = flows.flatMap(({ record: { id, name, isEnabled } }) => {
    const off = triggers.filter(({ trigger: { flowId, isOff } }) => flowId === id && isOff === true);
    const keys = isEnabled ? off.map(({ trigger }) => trigger.triggerKey) : [null];
    return keys.map((triggerKey) => ({ flowId: id, name, triggerKey }));
  });
  const found = await Promise.all(
    closed.map(async ({ name, ...where }): Promise<Finding<'deliveries_to_disabled_flow'>[]> => {
      const { flowId, triggerKey } = where;
      const refused = deliveries.filter(
        (each) =>
          each.flowId === flowId && each.reason === reason && (triggerKey ?? each.triggerKey) === each.triggerKey,
      );
      const sum = refused.reduce((total, each) => total + each.count, 0);
      if (sum === 0) return [];
      const { count, firstAt } = await openRefusals({ ...where, reason, count: sum, since: Date.parse(since) }, store);
      if (count <= 0) return [];
      const what = count === 1 ? `1 delivery to ${name} was` : `${count} deliveries to ${name} were`;
      const why = triggerKey === null ? 'the flow is disabled' : `its trigger ${triggerKey} is switched off`;
      const message = `${what} refused because ${why} (${sinceFirst(firstAt, 'in the last 24 hours')})`;
      const link = `/flows/deliveries?flowId=${flowId}&reason=${reason}&since=${since}`;
      return [{ kind: 'deliveries_to_disabled_flow', message, link, ...(triggerKey !== null && { triggerKey }) }];
    }),
  );
  return found.flat();
}
