import type { Delivery, DeliveryRecord } from '../model/delivery.ts';
import { REDACTED } from './deliveries.ts';
import type { SignatureSettings } from './gates/signature.ts';
import { resolveScheme } from './schemes/resolve.ts';
import type { PreparedTrigger, TriggerTable } from './triggers.ts';

/** A delivery as it once came, or why it cannot be had again. */
export type Restored =
  | {
      readonly delivery: Delivery;
      /** Why its signature cannot be judged although all else can; null where it can. */
      readonly unjudgeable: string | null;
    }
  | { readonly problem: string };

/** The trigger that a stored delivery would go to now. */
export function triggerOf(record: DeliveryRecord, triggers: TriggerTable): PreparedTrigger | undefined {
  if (record.flowId !== null) {
    return triggers
      .list()
      .find(({ trigger }) => trigger.flowId === record.flowId && trigger.triggerKey === record.triggerKey);
  }
  // What came to nobody may have an addressee by now.
  const address =
    pathOf(record.requestUrl ?? '')
      .split('?', 1)
      .join('')
      .split('/')
      .at(-1) ?? '';
  return triggers.find(address);
}

/** Headers as kept, exact bytes, the time at which it came: all that the gates judge by. */
export function restore(record: DeliveryRecord, trigger: PreparedTrigger, settings: SignatureSettings): Restored {
  const { body, bodyBytes, requestUrl, bodyKey } = record;
  if (body === null) {
    const gone = record.runId === null ? 'none of its bytes were kept' : 'its bytes were deleted with its run';
    const why = bodyKey === undefined ? gone : 'its body is sealed with another key';
    return { problem: `cannot be judged again: ${why}` };
  }
  if (body.byteLength !== bodyBytes || requestUrl === undefined) {
    return { problem: 'cannot be judged again: not all of it was kept' };
  }
  const delivery: Delivery = {
    id: record.id,
    receivedAt: record.receivedAt,
    method: 'POST',
    path: pathOf(requestUrl),
    requestUrl,
    headers: record.headers,
    body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    clientIp: record.clientIp,
  };
  const missing = neededHeaders(trigger, settings).filter((name) => isNotKept(record.headers[name]));
  if (missing.length === 0) return { delivery, unjudgeable: null };
  const named = missing.join(', ');
  return { delivery, unjudgeable: `cannot be judged again by what stood in ${named}: credentials are never kept` };
}

function isNotKept(value: string | undefined): boolean {
  return value === REDACTED || value?.endsWith('…') === true;
}

/** Lower case. A verifier's code reads what it likes: of those, every header counts that looks like a credential. */
function neededHeaders({ trigger: { inputs } }: PreparedTrigger, settings: SignatureSettings): string[] {
  const scheme = resolveScheme(settings.schemes, inputs);
  const families = scheme?.kind === 'spec' ? scheme.spec.headers : [];
  const names = [
    ...families.flatMap(({ signature, timestamp, deliveryId }) => [signature, timestamp, deliveryId]),
    ...(scheme?.kind === 'verifier' ? ['authorization'] : []),
    inputs.webhookNonceHeader,
    inputs.webhookTimestampHeader,
  ];
  return [...new Set(names.filter((name) => name !== undefined).map((name) => name.trim().toLowerCase()))];
}

/** Path and query, still percent-encoded. */
function pathOf(requestUrl: string): string {
  return /^[a-z]+:\/\/[^/?#]*(.*)$/i.exec(requestUrl)?.[1] ?? '';
}
