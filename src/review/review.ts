import { isMalformedJson } from '../expressions/trigger-body.ts';
import type { Delivery, DeliveryRecord, Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import { admissionTo } from '../webhooks/admission.ts';
import type { SignatureSettings } from '../webhooks/gates/signature.ts';
import { type Judgement, rehearseGates } from '../webhooks/pipeline.ts';
import { REASONS } from '../webhooks/reasons.ts';
import type { ReceiverServices } from '../webhooks/receive.ts';
import { wholeStory, withUnconfigured } from '../webhooks/story.ts';
import type { PreparedTrigger } from '../webhooks/triggers.ts';
import { type ConfiguredStory, withConfiguration } from './configured.ts';
import { type Advice, adviseOn } from './hints.ts';
import { restore, triggerOf } from './judge-again.ts';

export interface ReviewServices extends ReceiverServices {
  readonly settings: SignatureSettings;
}

/** What became of a stored delivery and what would help, by the trigger in force. */
export interface DeliveryReview extends Advice {
  readonly story: readonly ConfiguredStory[];
}

/** What a delivery would meet with; nothing was created or used up. */
export interface Rehearsal extends DeliveryReview {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly mode: EnforcementMode;
  /** What would be answered. */
  readonly statusCode: number;
  readonly reason: Reason | null;
  readonly violations: readonly Reason[];
}

/** A delivery judged by today's trigger, and what the pipeline would do with it. */
export interface Prospect {
  readonly trigger: PreparedTrigger;
  readonly judgement: Judgement;
  readonly refusal: Reason | null;
  /** The run that used the nonce before. */
  readonly replayedRunId: string | undefined;
}

/** The story of a stored delivery. Hints come from its bytes and the trigger in force, which may say more than was known. */
export async function reviewDelivery(record: DeliveryRecord, services: ReviewServices): Promise<DeliveryReview> {
  const trigger = triggerOf(record, services.triggers());
  const story = withConfiguration(wholeStory(record), trigger?.trigger.inputs);
  if (!record.rejected) return { story, hints: [], signature: null };
  if (isRepetition(record)) return { story, hints: [REPETITION], signature: null };
  if (trigger === undefined) return { story, hints: ['no trigger answers to it now'], signature: null };
  const restored = restore(record, trigger);
  if ('problem' in restored) return { story, hints: [restored.problem], signature: null };
  const { delivery, unjudgeable } = restored;
  if (unjudgeable !== null) return { story, hints: [unjudgeable], signature: null };
  const judgement = await rehearseGates(trigger.gates, delivery, trigger.mode);
  return { story, ...adviseOn(delivery, judgement, { trigger, settings: services.settings }) };
}

const REPETITION =
  'every gate let it pass; its bytes were not kept again, because they equal those of a delivery that was accepted before';

/** One that was acknowledged: whoever holds a captured delivery may send it for ever, and must not fill the disk with it. */
function isRepetition({ body, mode, violations, statusCode }: DeliveryRecord): boolean {
  return body === null && mode === 'Enforce' && statusCode === 200 && violations.includes('nonce_replayed');
}

/** Judges a delivery as if it came now. Undefined where nothing answers to the address. */
export async function rehearse(
  delivery: Delivery,
  idOrSlug: string,
  services: ReviewServices,
): Promise<Rehearsal | undefined> {
  const trigger = services.triggers().find(idOrSlug);
  if (trigger === undefined) return undefined;
  const { judgement, replayedRunId, ...prospect } = await foresee(delivery, trigger, services);
  const refusal = admissionTo(trigger, services) === 'disabled' ? 'flow_disabled' : prospect.refusal;
  const replays: Reason[] = replayedRunId === undefined ? [] : ['nonce_replayed'];
  const others = refusal === null || judgement.violations.includes(refusal) || replays.includes(refusal);
  const violations = [...judgement.violations, ...replays, ...(others ? [] : [refusal])];
  const told = withUnconfigured(trigger.chain, judgement.story);
  const { flowId, triggerKey } = trigger.trigger;
  const statusCode = refusal === null ? 200 : REASONS[refusal].statusCode;
  const bodyBytes = delivery.body.byteLength;
  const story = wholeStory({ story: told, violations, bodyBytes, statusCode });
  return {
    flowId,
    triggerKey,
    mode: trigger.mode,
    statusCode,
    reason: violations[0] ?? null,
    violations,
    story: withConfiguration(story, trigger.trigger.inputs),
    ...adviseOn(delivery, judgement, { trigger, settings: services.settings }),
  };
}

/** What the pipeline would do with a delivery by today's trigger if its flow starts runs, without doing it. */
export async function foresee(
  delivery: Delivery,
  trigger: PreparedTrigger,
  services: ReviewServices,
): Promise<Prospect> {
  const judgement = await rehearseGates(trigger.gates, delivery, trigger.mode);
  const replayedRunId = await findReplay(delivery, trigger, { judgement, services });
  const prospect = { trigger, judgement, replayedRunId };
  if (judgement.refusal !== null) return { ...prospect, refusal: judgement.refusal };
  if (isMalformedJson(delivery.body, delivery.headers['content-type'])) return { ...prospect, refusal: 'invalid_json' };
  const isRefused = replayedRunId !== undefined && trigger.mode === 'Enforce';
  return { ...prospect, refusal: isRefused ? 'nonce_replayed' : null };
}

/** Looks in the log, for a nonce of long ago is no longer among those that acceptance knows. */
async function findReplay(
  { receivedAt }: Delivery,
  { trigger: { flowId, triggerKey } }: PreparedTrigger,
  { judgement, services }: { readonly judgement: Judgement; readonly services: ReviewServices },
): Promise<string | undefined> {
  const { nonce } = judgement.evidence;
  if (nonce === undefined) return undefined;
  // Whatever was accepted earlier than that had expired when the delivery came.
  const since = receivedAt - Math.max(0, nonce.expiresAt - receivedAt);
  return services.store.findAcceptedNonce({ flowId, triggerKey, nonce: nonce.value, since });
}
