import { hash } from 'node:crypto';
import { DETAILS, type Delivery, type DeliveryRecord } from '../../model/delivery.ts';
import { ipGate } from '../../webhooks/gates/ip.ts';
import { UNVERIFIED_RATE_LIMIT } from '../../webhooks/gates/rate-limit.ts';
import { replayGate } from '../../webhooks/gates/replay.ts';
import { signatureGate } from '../../webhooks/gates/signature.ts';
import { mayHoldSecret } from '../../webhooks/headers.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import { judgeByGates } from './judge-again.ts';

/** A body that a person sends in place of the original one. */
export interface EditedBody {
  readonly bytes: Buffer;
  /** Whether it is UTF-8, whatever charset the publisher declared. */
  readonly isText: boolean;
  /** Who edited it, by the name used in the activity. */
  readonly by: string;
}

/**
 * A stored delivery with a body that its publisher never sent. It arrives now, without the headers that vouch for or
 * describe the original bytes.
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

/** Gates for the sender, the rate and the time. For a person with the scope `operate`, the login replaces them. */
const OF_SENDER: ReadonlySet<string> = new Set([
  ipGate.name,
  'rateLimit',
  UNVERIFIED_RATE_LIMIT,
  signatureGate.name,
  replayGate.name,
]);

/**
 * Judges an edited delivery by all other gates. It gets its own nonce, so that the publisher's delivery and retries are
 * not repetitions of it; the login vouches for its event id and its order key.
 */
export async function judgeEdited(delivery: Delivery, trigger: PreparedTrigger) {
  const gates = trigger.gates.filter(({ name }) => !OF_SENDER.has(name));
  const { judgement, refusal } = await judgeByGates(delivery, { ...trigger, gates });
  const digest = hash('sha256', `${DETAILS.edited} ${delivery.id}`);
  const { lifeMs } = trigger.nameDelivery(delivery, {});
  const nonce = { header: '', value: digest, digest, lifeMs };
  return { trigger, judgement: { ...judgement, evidence: { ...judgement.evidence, nonce } }, refusal };
}
