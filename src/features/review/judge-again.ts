import { isMasked, MASK, queryOf } from '../../manifest/mask.ts';
import type { Delivery, DeliveryRecord, Reason } from '../../model/delivery.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import { readContent, withContent } from '../../webhooks/content.ts';
import type { SignatureSettings } from '../../webhooks/gates/signature.ts';
import { REDACTED } from '../../webhooks/headers.ts';
import { dryRunGates, type Judgement } from '../../webhooks/pipeline.ts';
import type { ReceiverServices } from '../../webhooks/receive.ts';
import { type PreparedTrigger, type TriggerTable, unservedOf } from '../../webhooks/triggers.ts';
import { reviewStore } from './store.ts';

export interface ReviewServices extends ReceiverServices {
  readonly settings: SignatureSettings;
}

/** A delivery as it once arrived, or why it cannot be restored. */
type Restored =
  | {
      readonly delivery: Delivery;
      /** Why its signature cannot be judged, although everything else can; null if it can. */
      readonly unjudgeable: string | null;
    }
  | { readonly problem: string };

/** The trigger that a stored delivery would reach now. */
export function triggerOf(record: DeliveryRecord, triggers: TriggerTable): PreparedTrigger | undefined {
  if (record.flowId !== null) {
    return triggers.list().find(({ trigger }) => sameTrigger(trigger, record));
  }
  // A delivery that reached no trigger may reach one by now.
  return triggers.find(addressOf(record));
}

/**
 * If the delivery reached several triggers: those that share the trigger's slug now; else absent. A redelivery by a
 * person reaches the same triggers as one by the publisher.
 */
export function sharingOf(
  { shares, flowId }: DeliveryRecord,
  { trigger }: PreparedTrigger,
  triggers: TriggerTable,
): readonly PreparedTrigger[] | undefined {
  const { webhookSlug } = trigger.inputs;
  if (webhookSlug === undefined || (shares === undefined && flowId !== null)) return undefined;
  const found = triggers.findAll(webhookSlug);
  return found.length > 1 && found.some((each) => each.trigger === trigger) ? found : undefined;
}

function addressOf({ requestUrl }: DeliveryRecord): string {
  return (
    pathOf(requestUrl ?? '')
      .split('?', 1)
      .join('')
      .split('/')
      .at(-1) ?? ''
  );
}

/** Whether the trigger exists, but this service cannot serve it. */
export function isUnserved(
  record: DeliveryRecord,
  { catalog, triggers }: Pick<ReviewServices, 'catalog' | 'triggers'>,
): boolean {
  const flow = record.flowId === null ? undefined : catalog.find(record.flowId);
  const isOfFlow = flow && unservedOf(flow.loaded).some(({ triggerKey }) => triggerKey === record.triggerKey);
  return isOfFlow === true || triggers().findUnserved(addressOf(record)) !== undefined;
}

/**
 * Restores everything that gates judge by: stored headers, exact bytes, time of arrival. `url` is used if the URL of
 * the delivery was not kept.
 */
export function restore(record: DeliveryRecord, trigger: PreparedTrigger, url?: string): Restored {
  const { body, bodyBytes, requestUrl = url, bodyKey } = record;
  if (body === null) {
    const gone = record.runId === null ? 'none of its bytes were stored' : 'its bytes were deleted with its run';
    const why = bodyKey === undefined ? gone : 'its body is sealed with another key';
    return { problem: `cannot be judged again: ${why}` };
  }
  if (body.byteLength !== bodyBytes || requestUrl === undefined) {
    return { problem: 'cannot be judged again: it was not stored completely' };
  }
  const called = unmaskedUrl(requestUrl, trigger);
  const stored: Delivery = {
    id: record.id,
    receivedAt: record.receivedAt,
    method: 'POST',
    path: pathOf(called),
    requestUrl: called,
    headers: record.headers,
    body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    clientIp: record.clientIp,
  };
  const delivery = withContent(stored, trigger);
  const { names, isOpen } = trigger.headersRead;
  const missing = [...names].filter((name) => isNotKept(record.headers[name]));
  // Header names are the sender's words, and people who may not read contents see this text: give only their number.
  const others = Object.keys(record.headers).filter((name) => !names.has(name) && isNotKept(record.headers[name]));
  if (isOpen && others.length > 0)
    missing.push(others.length === 1 ? '1 other header' : `${others.length} other headers`);
  if (trigger.mayReadQuery && (isMasked(called) || record.requestUrl === undefined)) missing.push('the query');
  if (trigger.keepBody !== undefined) missing.push('the body');
  const nonceHeader = trigger.trigger.inputs.webhookNonceHeader?.trim().toLowerCase();
  if (nonceHeader !== undefined && missing.includes(nonceHeader)) {
    // With the mask in place of its value, all deliveries would have one nonce, known for none or for all of them.
    return { problem: `cannot be judged again: its nonce was in ${nonceHeader}, and credentials are never stored` };
  }
  if (missing.length === 0) return { delivery, unjudgeable: null };
  const named = missing.join(', ');
  return { delivery, unjudgeable: `cannot be judged again by the contents of ${named}: credentials are never stored` };
}

function isNotKept(value: string | undefined): boolean {
  return value === REDACTED || value?.endsWith('…') === true;
}

/** Restores a masked query from the trigger's own URL: publishers got that URL and can only append to it. */
function unmaskedUrl(requestUrl: string, { trigger: { inputs } }: PreparedTrigger): string {
  const configured = inputs.webhookPublicUrl?.split('#', 1)[0]?.split('?').slice(1).join('?') ?? '';
  const at = requestUrl.indexOf('?');
  if (configured === '' || at === -1) return requestUrl;
  const kept = queryOf(requestUrl.slice(at));
  const own = queryOf(configured);
  const isOwn = own.every(({ name, value }, index) => {
    const there = kept[index];
    return there?.name === name && (there?.value === value || there?.value === MASK);
  });
  if (!isOwn) return requestUrl;
  const rest = requestUrl
    .slice(at + 1)
    .split('&')
    .slice(own.length);
  return `${requestUrl.slice(0, at)}?${[configured, ...rest].join('&')}`;
}

/** Path and query, still percent-encoded. */
function pathOf(requestUrl: string): string {
  return /^[a-z]+:\/\/[^/?#]*(.*)$/i.exec(requestUrl)?.[1] ?? '';
}

/** A delivery judged by the current trigger, and what the pipeline would do with it. */
interface CurrentJudgement {
  readonly trigger: PreparedTrigger;
  readonly judgement: Judgement;
  readonly refusal: Reason | null;
  /** The run that already used the nonce. */
  readonly replayedRunId: string | undefined;
}

/** The trigger whose gates judge, and all that share its slug if the delivery is for these too. */
interface Receiving {
  readonly trigger: PreparedTrigger;
  readonly sharing?: readonly PreparedTrigger[] | undefined;
}

/** What the pipeline would do with a delivery at the current trigger if its flow starts runs; does nothing itself. */
export async function judgeByCurrentTrigger(
  delivery: Delivery,
  { trigger, sharing = [trigger] }: Receiving,
  services: ReviewServices,
): Promise<CurrentJudgement> {
  const { judgement, refusal } = await judgeByGates(delivery, trigger);
  let replayedRunId: string | undefined;
  for (const each of sharing) replayedRunId ??= await findReplay(delivery, each, { judgement, services });
  const known = { trigger, judgement, replayedRunId };
  if (refusal !== null) return { ...known, refusal };
  const isRefused = replayedRunId !== undefined && trigger.mode === 'Enforce';
  return { ...known, refusal: isRefused ? 'nonce_replayed' : null };
}

/** The same without nonces: as if no other delivery had arrived. */
export async function judgeByGates(
  delivery: Delivery,
  { gates, mode, documentIn }: Pick<PreparedTrigger, 'gates' | 'mode' | 'documentIn'>,
): Promise<Pick<CurrentJudgement, 'judgement' | 'refusal'>> {
  const judgement = await dryRunGates(gates, delivery, mode);
  if (judgement.refusal !== null) return { judgement, refusal: judgement.refusal };
  return { judgement, refusal: await unreadable(delivery, { documentIn }) };
}

/** Why the body cannot be read, regardless of the gates. */
async function unreadable(...arrived: Parameters<typeof readContent>): Promise<Reason | null> {
  const body = await readContent(...arrived);
  if ('reason' in body) return body.reason;
  return body.isMalformed() ? 'invalid_json' : null;
}

/** Searches the log, because acceptance no longer knows old nonces. */
async function findReplay(
  { receivedAt }: Delivery,
  { trigger: { flowId, triggerKey } }: PreparedTrigger,
  { judgement, services }: { readonly judgement: Judgement; readonly services: ReviewServices },
): Promise<string | undefined> {
  const { nonce } = judgement.evidence;
  if (nonce === undefined) return undefined;
  // Anything accepted earlier had expired when the delivery arrived.
  const since = receivedAt - nonce.lifeMs;
  return services.store.of(reviewStore).findAcceptedNonce({ flowId, triggerKey, nonce: nonce.value, since });
}
