import { isMasked, MASK, queryOf } from '../manifest/mask-url.ts';
import type { Delivery, DeliveryRecord } from '../model/delivery.ts';
import { REDACTED } from '../webhooks/headers.ts';
import type { PreparedTrigger, TriggerTable } from '../webhooks/triggers.ts';

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
export function restore(record: DeliveryRecord, trigger: PreparedTrigger): Restored {
  const { body, bodyBytes, requestUrl, bodyKey } = record;
  if (body === null) {
    const gone = record.runId === null ? 'none of its bytes were kept' : 'its bytes were deleted with its run';
    const why = bodyKey === undefined ? gone : 'its body is sealed with another key';
    return { problem: `cannot be judged again: ${why}` };
  }
  if (body.byteLength !== bodyBytes || requestUrl === undefined) {
    return { problem: 'cannot be judged again: not all of it was kept' };
  }
  const url = unmaskedUrl(requestUrl, trigger);
  const delivery: Delivery = {
    id: record.id,
    receivedAt: record.receivedAt,
    method: 'POST',
    path: pathOf(url),
    requestUrl: url,
    headers: record.headers,
    body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
    clientIp: record.clientIp,
  };
  const { names, isOpen } = trigger.headersRead;
  const read = isOpen ? Object.keys(record.headers) : [...names];
  const missing = read.filter((name) => isNotKept(record.headers[name]));
  if (trigger.mayReadQuery && isMasked(url)) missing.push('the query');
  const nonceHeader = trigger.trigger.inputs.webhookNonceHeader?.trim().toLowerCase();
  if (nonceHeader !== undefined && missing.includes(nonceHeader)) {
    // The mask in place of the value would be one nonce for all deliveries, known for none or for every one of them.
    return { problem: `cannot be judged again: its nonce stood in ${nonceHeader}, and credentials are never kept` };
  }
  if (missing.length === 0) return { delivery, unjudgeable: null };
  const named = missing.join(', ');
  return { delivery, unjudgeable: `cannot be judged again by what stood in ${named}: credentials are never kept` };
}

function isNotKept(value: string | undefined): boolean {
  return value === REDACTED || value?.endsWith('…') === true;
}

/** What the trigger's own URL says of a masked query: the publisher was given it, and adds at most to its end. */
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
