import type { Reason } from '../../model/delivery.ts';
import type { EnforcementMode } from '../../model/manifest.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import type { DeliveryCount } from '../../store/store.ts';
import { type Finding, LOOK_BACK_HOURS, nameOf, RECENT_HOURS, type Situation, startOf } from './finding.ts';

/** At least this many refusals in the recent hours, and this many times the usual number, need attention. */
const RISING_COUNT = 20;

const RISING_FACTOR = 5;

/** What happened to these deliveries, refused or not, in words. */
const WHAT_HAPPENED = {
  body_too_large: 'were larger than the limit',
  unknown_flow: 'were sent to a URL that no webhook has',
  flow_unreadable: 'were sent to a trigger that is not served and got 503',
  flow_disabled: 'were refused because the flow is disabled or draining',
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
  verification_unavailable: 'could not be verified because the certificate of the publisher could not be fetched',
  timestamp_missing: 'had no timestamp',
  timestamp_malformed: 'had a timestamp that cannot be read',
  timestamp_skew: 'had a timestamp that is too old or too far in the future',
  body_schema: 'had a body that does not match the schema',
  idempotency_conflict: 'used an Idempotency-Key again, with another body',
  nonce_replayed: 'repeated one that was already accepted',
  store_unavailable: 'could not be stored and got 503',
} as const satisfies Record<Reason, string>;

/** What happens to a delivery for these is the same in every mode; the other reasons come from gates. */
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

/** Whether deliveries are let through although a gate failed, because somebody chose that mode. */
export function isChosenFor(reason: Reason, mode: EnforcementMode | undefined): boolean {
  return mode !== undefined && mode !== 'Enforce' && !IN_EVERY_MODE.includes(reason);
}

export function risingRefusals({ deliveries, triggers, flows, now }: Situation): Finding<'refusals_rising'>[] {
  const since = startOf(now, RECENT_HOURS - 1);
  return countRefusals(deliveries).flatMap(
    ({ flowId, triggerKey, reason, recent, before }): Finding<'refusals_rising'>[] => {
      const usual = Math.round((before / (LOOK_BACK_HOURS - RECENT_HOURS + 1)) * RECENT_HOURS);
      if (recent < RISING_COUNT || recent < usual * RISING_FACTOR) return [];
      const place = flowId === null ? '' : `${nameOf(flowId, flows)}${triggerKey === null ? '' : `/${triggerKey}`}`;
      const to = place === '' ? '' : ` to ${place}`;
      const found = triggers.find(({ trigger }) => sameTrigger(trigger, { flowId, triggerKey }));
      const isChosen = isChosenFor(reason, found?.mode);
      const passed = isChosen ? `; all were accepted, because its mode is ${found?.mode}` : '';
      const ofFlow = flowId === null ? '' : `flowId=${flowId}&`;
      return [
        {
          kind: 'refusals_rising',
          ...(isChosen && { severity: 'info' }),
          message: `${recent} deliveries${to} ${WHAT_HAPPENED[reason]} (since ${since}; normally ${usual})${passed}`,
          link: `/flows/deliveries?${ofFlow}reason=${reason}&since=${since}`,
          flowId,
          triggerKey,
        },
      ];
    },
  );
}

interface Refusals extends Pick<DeliveryCount, 'flowId' | 'triggerKey'> {
  readonly reason: Reason;
  recent: number;
  before: number;
}

/** For each trigger and reason; what belongs to no flow is counted for the reason alone. */
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

export function disabledFlows({ deliveries, flows, now }: Situation): Finding<'deliveries_to_disabled_flow'>[] {
  return flows.flatMap(({ record }): Finding<'deliveries_to_disabled_flow'>[] => {
    const count = deliveries.reduce(
      (sum, each) => sum + (each.flowId === record.id && each.reason === 'flow_disabled' ? each.count : 0),
      0,
    );
    if (record.isEnabled || count === 0) return [];
    const refused = count === 1 ? `1 delivery to ${record.name} was` : `${count} deliveries to ${record.name} were`;
    const since = startOf(now, LOOK_BACK_HOURS);
    const message = `${refused} refused because the flow is disabled (since ${since})`;
    const link = `/flows/deliveries?flowId=${record.id}&reason=flow_disabled&since=${since}`;
    return [{ kind: 'deliveries_to_disabled_flow', message, link }];
  });
}
