import { hash } from 'node:crypto';
import { DETAILS, type Delivery, type DeliveryRecord } from '../../model/delivery.ts';
import { ipGate } from '../../webhooks/gates/ip.ts';
import { UNVERIFIED_RATE_LIMIT } from '../../webhooks/gates/rate-limit.ts';
import { replayGate } from '../../webhooks/gates/replay.ts';
import { signatureGate } from '../../webhooks/gates/signature.ts';
import { mayHoldSecret } from '../../webhooks/headers.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import { judgeByGates } from './judge-again.ts';

/** A body that a person sends in place of the one that came. */
export interface EditedBody {
  readonly bytes: Buffer;
  /** It is UTF-8, whatever charset the publisher declared. */
  readonly isText: boolean;
  /** Who edited it, by the name in the activity. */
  readonly by: string;
}

/**
 * A stored delivery with a body that its publisher never sent: it comes now, and without the headers that vouch for, or
 * describe, the bytes that came.
 */
export function editedDelivery(
  { id, clientIp, headers, requestUrl = '' }: DeliveryRecord,
  { bytes, isText }: EditedBody,
  { trigger, receivedAt }: { readonly trigger: PreparedTrigger; readonly receivedAt: number },
): Delivery {
  const kept = Object.entries(headers).filter(([name]) => !OF_BYTES.has(name) && !mayHoldSecret(name));
  const path = requestUrl.replace(/^[a-z]+:\/\/[^/?#]*/i, '');
  return {
    id,
    receivedAt,
    method: 'POST',
    path,
    requestUrl,
    headers: Object.fromEntries(kept.map(([name, value]) => [name, isText ? inUtf8(name, value) : value])),
    body: trigger.keepBody?.(bytes) ?? bytes,
    clientIp,
  };
}

const OF_BYTES: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-length',
  'content-md5',
  'transfer-encoding',
  'digest',
  'content-digest',
  'repr-digest',
  // The publisher's promise to send the same bytes again.
  'idempotency-key',
]);

const inUtf8 = (name: string, value: string) =>
  name === 'content-type' ? value.replace(/(;\s*charset\s*=\s*)("[^"]*"|[^\s;",]+)/i, '$1utf-8') : value;

/** They judge who sends, how often and when. Of a person with the scope `operate` the login has judged that. */
const OF_SENDER: ReadonlySet<string> = new Set([
  ipGate.name,
  'rateLimit',
  UNVERIFIED_RATE_LIMIT,
  signatureGate.name,
  replayGate.name,
]);

/**
 * What the other gates say of it. Its nonce is its own, so that neither the publisher's delivery nor a retry of it counts as a
 * repetition; the login vouches for its event id and its order key.
 */
export async function judgeEdited(delivery: Delivery, trigger: PreparedTrigger) {
  const gates = trigger.gates.filter(({ name }) => !OF_SENDER.has(name));
  const { judgement, refusal } = await judgeByGates(delivery, { ...trigger, gates });
  const digest = hash('sha256', `${DETAILS.edited} ${delivery.id}`);
  const { lifeMs } = trigger.nameDelivery(delivery, {});
  const nonce = { header: '', value: digest, digest, isOfBody: false, lifeMs };
  return { trigger, judgement: { ...judgement, evidence: { ...judgement.evidence, nonce } }, refusal };
}
