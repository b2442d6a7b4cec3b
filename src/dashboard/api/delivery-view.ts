import { z } from 'zod';
import type { DeliveryRecord } from '../../model/delivery.ts';
import { shownHeaders } from '../../webhooks/headers.ts';
import { isReason, REASONS } from '../../webhooks/reasons.ts';
import { id, integer, isoTime, time } from './formats.ts';

/** How much of a body an answer shows. */
const MAX_BODY_BYTES = 65_536;

export const reasonSchema = z.enum(Object.keys(REASONS).filter(isReason));

export const deliverySchema = z
  .object({
    id: id(),
    flowId: id().nullable(),
    triggerKey: z.string().nullable(),
    receivedAt: time(),
    clientIp: z.string(),
    mode: z.enum(['Off', 'Audit', 'Enforce']),
    scheme: z.string().nullable(),
    rejected: z.boolean().describe('A gate failed, or the delivery was refused.'),
    enforced: z.boolean().describe('The answer was a 4xx.'),
    statusCode: integer(),
    reason: reasonSchema.nullable(),
    violations: z.array(reasonSchema),
    detail: z.string().nullable(),
    bodyBytes: integer(),
    body: z.string().nullable().describe('At most 64 KiB; null where none was read.'),
    bodyEncoding: z.enum(['utf8', 'base64']).nullable(),
    bodyTruncated: z.boolean(),
    headers: z.record(z.string(), z.string()).describe('Values of headers that may hold a credential redacted.'),
    processingMs: z.number(),
    runId: id().nullable(),
    usedPreviousKey: z.boolean(),
  })
  .meta({ id: 'Delivery' });

export function deliveryView(record: DeliveryRecord): z.output<typeof deliverySchema> {
  return {
    ...record,
    receivedAt: isoTime(record.receivedAt),
    violations: [...record.violations],
    // Redacted when it was kept, by whatever release kept it: by now more may be.
    headers: shownHeaders(record.headers, new Set(Object.keys(record.headers))),
    ...bodyView(record.body, record.bodyBytes),
  };
}

/** Text where the bytes are UTF-8, else base64; a cut never leaves half a character behind. */
function bodyView(body: Uint8Array | null, bodyBytes: number) {
  if (body === null) return { body: null, bodyEncoding: null, bodyTruncated: false };
  const shown = body.subarray(0, MAX_BODY_BYTES);
  const bodyTruncated = shown.byteLength < bodyBytes;
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return { body: decoder.decode(shown, { stream: bodyTruncated }), bodyEncoding: 'utf8' as const, bodyTruncated };
  } catch {
    return { body: Buffer.from(shown).toString('base64'), bodyEncoding: 'base64' as const, bodyTruncated };
  }
}
