import { isDeepStrictEqual } from 'node:util';
import { WEBHOOK_ROWS } from '../manifest/webhook-fields.ts';
import type { WebhookInputs, WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { FlowRecord, JudgedBy } from '../store/store.ts';
import { differencesOf } from './access.ts';
import type { EntranceGates } from './access-rules.ts';

/** Why two triggers cannot both get the deliveries of one slug; undefined if they can. */
export type WhyApart = (one: WebhookTrigger, other: WebhookTrigger) => string | undefined;

const FIELDS = Object.keys(WEBHOOK_ROWS) as (keyof WebhookInputs)[];

/** Fields that must be equal: a delivery to several triggers has one answer, and one key verifies it. */
const ALIKE = FIELDS.filter((field) => {
  const { decides, isOwnOnSharedSlug } = WEBHOOK_ROWS[field];
  return decides === 'answer' && isOwnOnSharedSlug !== true;
});

/** Fields that have a run answer its delivery. */
const ANSWERING = FIELDS.filter((field) => WEBHOOK_ROWS[field].answersByRun === true);

/** Whether runs of the trigger answer its deliveries. */
export const isAnsweredByRun = (inputs: WebhookInputs): boolean =>
  ANSWERING.some((field) => inputs[field] !== undefined);

/**
 * Judges whether triggers may share a slug: they belong to different flows, both say so, and the same deliveries pass
 * the gates of each. The gates of one of them then verify a delivery.
 */
export function sharingBy(gates: EntranceGates): WhyApart {
  return (one, other) => {
    if (one.flowId === other.flowId) return 'is also the slug of another trigger of the flow';
    if (one.inputs.webhookShared !== true || other.inputs.webhookShared !== true) {
      return 'is the slug of both, and is shared only where both say "webhookShared": true';
    }
    if (isAnsweredByRun(one.inputs) && isAnsweredByRun(other.inputs)) {
      return `is shared, and only one trigger of it may have ${ANSWERING.join(' or ')}: a delivery has one answer`;
    }
    const differences = [
      ...differencesOf(one, other, gates),
      ...(isDeepStrictEqual(one.keys, other.keys) ? [] : ['keys']),
      ...(one.verifyToken === other.verifyToken ? [] : ['webhookVerifyToken']),
      ...ALIKE.filter((field) => !isDeepStrictEqual(one.inputs[field], other.inputs[field])),
    ];
    return differences.length === 0 ? undefined : `is shared, but not the same for both: ${differences.join(', ')}`;
  };
}

/** What a process knows of the flows that it has; see `TriggerTable.judgedBy`. */
export function knowledgeOf(flows: readonly { readonly record: FlowRecord }[]) {
  const revisions = new Map(flows.map(({ record: { id, revision } }) => [id, revision]));
  const isKnown = ({ id, revision, deletedAt }: FlowRecord) =>
    revisions.get(id) === (deletedAt === undefined ? revision : undefined);
  return (name: string) =>
    (own: FlowRecord): JudgedBy => ({
      slug: name.toLowerCase(),
      isCurrent: (stored) => (stored.id === own.id ? isDeepStrictEqual(stored, own) : isKnown(stored)),
    });
}
