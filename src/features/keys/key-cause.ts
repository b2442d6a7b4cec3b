import { type Finding, iso, type Situation } from '../../dashboard/attention/finding.ts';
import { sameTrigger, type TriggerName } from '../../model/trigger-name.ts';
import { happened } from '../deliveries/refusals.ts';
import { deliveriesStore } from '../deliveries/store.ts';
import type { KeyReport, ReportServices } from './key-report.ts';

/** A key that took the place of one that worked, and has verified nothing since. */
interface BrokenRotation extends TriggerName {
  /** Milliseconds since the Unix epoch. */
  readonly since: number;
  /** One sentence. */
  readonly cause: string;
}

/** Less may be a stranger who tries. */
const LEAST_REFUSED = 3;

/** Triggers all of whose present keys are idle since they changed, although a former one verified deliveries. */
export function brokenRotations(reports: readonly KeyReport[]): BrokenRotation[] {
  return reports.flatMap((current, at): BrokenRotation[] => {
    const isFirst = !reports.slice(0, at).some((each) => sameTrigger(each, current));
    const { flowId, triggerKey, since, reference } = current;
    if (!isFirst || current.role !== 'current' || since === null) return [];
    const others = reports.filter((each) => each !== current && sameTrigger(each, current));
    const isIdle = (key: KeyReport) => key.count === 0 || (key.role !== 'current' && (key.lastVerifiedAt ?? 0) < since);
    const verified = others.reduce((sum, { count }) => sum + count, 0);
    if (verified === 0 || ![current, ...others].every(isIdle)) return [];
    const key = reference === null ? `The key of ${current.flowName}/${triggerKey}` : `The key behind ${reference}`;
    const cause = `${key} changed at ${iso(since)} and has verified nothing since; the former one verified ${verified}`;
    return [{ flowId, triggerKey, since, cause }];
  });
}

/** Triggers that refuse whatever their publishers send since their keys changed. */
export async function refusedByKey(
  rotations: readonly BrokenRotation[],
  { triggers }: Pick<Situation, 'triggers'>,
  store: ReportServices['store'],
): Promise<Finding<'key_refuses_all'>[]> {
  const found = await Promise.all(
    rotations.map(async ({ cause, ...rotation }): Promise<Finding<'key_refuses_all'>[]> => {
      const { flowId, triggerKey, since } = rotation;
      const prepared = triggers.find(({ trigger }) => sameTrigger(trigger, rotation));
      if (prepared?.mode !== 'Enforce') return [];
      const reason = 'signature_mismatch';
      const { count, firstAt, redelivered } = await store.of(deliveriesStore).countRefused({ ...rotation, reason });
      const open = count - redelivered;
      if (open < LEAST_REFUSED || firstAt === null) return [];
      const message =
        `${prepared.trigger.flowName}/${triggerKey} refuses what its publisher sends: ${open} deliveries ${happened(reason)} ` +
        `since ${iso(firstAt)}. ${cause}. Enter the new key at the publisher, or put the former one back, and deliver them again`;
      const link = `/flows/deliveries?flowId=${flowId}&reason=${reason}&since=${iso(since)}`;
      return [{ kind: 'key_refuses_all', message, link, flowId, triggerKey, insteadOf: 'refusals_rising' }];
    }),
  );
  return found.flat();
}
