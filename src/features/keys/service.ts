import { z } from 'zod';
import { field } from '../../dashboard/answer.ts';
import { type Finding, iso, type Situation } from '../../dashboard/attention/finding.ts';
import { parameter } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, rulesFor, servicePart } from '../../dashboard/services.ts';
import { sees, sightOf } from '../../dashboard/sight.ts';
import { sameTrigger, type TriggerName } from '../../model/trigger-name.ts';
import { happened } from '../deliveries/refusals.ts';
import { deliveriesStore } from '../deliveries/store.ts';
import { keysAttention } from './attention.ts';
import { createKeyKeeper } from './key-keeper.ts';
import { type KeyReport, keyView, type ReportServices, reportKeys } from './key-report.ts';

export const keySchema = z
  .object({
    flowId: field.id(),
    flowName: z.string(),
    triggerKey: z.string(),
    role: z
      .enum(['current', 'previous', 'former'])
      .describe('former: all keys together that verified deliveries but that this process does not have.'),
    fingerprint: z
      .string()
      .nullable()
      .describe(
        'First 8 hex digits of the SHA-256 of the key; null for a token, a key under 16 bytes or a former one.',
      ),
    reference: z.string().nullable().describe('As in the manifest; null for a learned or plain-text key.'),
    since: field.time().nullable().describe('When it was first seen in this role.'),
    lastVerifiedAt: field.time().nullable(),
    count: field.integer().describe('Accepted deliveries that it verified, without redeliveries and replays.'),
    last24Hours: field.integer().describe('Those of the last 24 hours, rounded up to a whole hour.'),
    advice: z
      .enum(['in_use', 'not_switched', 'same_key', 'wait', 'keys_differ', 'may_go'])
      .nullable()
      .describe('Whether a previous key can be removed.'),
    message: field.content(z.string().nullable()).describe('The same as text.'),
    users: z
      .array(z.object({ clientIp: z.string(), userAgent: field.content(z.string().nullable()), lastAt: field.time() }))
      .describe('Who sent the last deliveries that needed a previous key; empty if none did for seven days.'),
  })
  .meta({ id: 'Key' });

/** Lists the keys that verify deliveries. */
const keyRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/keys',
    route('flows', {
      operationId: 'listKeys',
      limit: 'filtered',
      summary: 'The keys of webhooks: when each last verified a delivery, how often, and which can be removed',
      query: z.strictObject({ flowId: parameter.optionalGuid() }),
      answer: z.array(keySchema),
    }),
    async (request) => {
      const sight = sightOf(request, services);
      const reports = await reportKeys({ ...services, triggers: services.triggers() }, request.query.flowId);
      return reports.filter(({ flowId }) => sees(sight, flowId)).map(keyView);
    },
  );
};

/** A key that replaced a working one and has verified nothing since. */
interface BrokenRotation extends TriggerName {
  /** Milliseconds since the Unix epoch. */
  readonly since: number;
  /** One sentence. */
  readonly cause: string;
}

/** Fewer refusals may be a stranger's attempts. */
const LEAST_REFUSED = 3;

/** Triggers whose present keys all verified nothing since they changed, although a former one verified deliveries. */
function brokenRotations(reports: readonly KeyReport[]): BrokenRotation[] {
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

/** Triggers that refuse all deliveries since their keys changed. */
async function refusedByKey(
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

const CONCERNS = {
  not_switched: 'current_key_unused',
  keys_differ: 'keys_differ',
  in_use: 'previous_key_in_use',
  same_key: 'previous_key_unused',
  may_go: 'previous_key_unused',
} as const;

/** Advice for operators on keys that are being rotated. */
export function rotationConcerns(keys: readonly KeyReport[]): Finding<(typeof CONCERNS)[keyof typeof CONCERNS]>[] {
  return keys.flatMap(({ advice, message, flowId, triggerKey, recent }) => {
    if (advice === null || advice === 'wait' || message === null) return [];
    const isOver = advice === 'in_use' && recent === 0;
    const where = { link: `/flows/flows/${flowId}?view=keys`, triggerKey };
    return [{ kind: CONCERNS[advice], ...(isOver && { severity: 'info' as const }), message, ...where }];
  });
}

export const keys = servicePart({
  name: 'keys',
  routes: [keyRoutes],
  attention: rulesFor(keysAttention, async (situation, services) => {
    const reports = await reportKeys({ ...services, triggers: services.triggers() });
    const refused = await refusedByKey(brokenRotations(reports), situation, services.store);
    return [...refused, ...rotationConcerns(reports)];
  }),
  causes: async ({ flowId, triggerKey, reason, at }, services) => {
    if (reason !== 'signature_mismatch' || flowId === null) return [];
    const reports = await reportKeys({ ...services, triggers: services.triggers() }, flowId);
    return brokenRotations(reports).flatMap((each) =>
      each.triggerKey === triggerKey && each.since <= at ? [each.cause] : [],
    );
  },
  start: (host) => {
    const keeper = createKeyKeeper(host);
    return { sweeper: keeper, onTriggers: keeper.note };
  },
});
