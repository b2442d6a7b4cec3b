import { createHmac } from 'node:crypto';
import { z } from 'zod';
import { HEADER_NAME } from '../../model/delivery.ts';

const ALGORITHMS = ['sha256', 'sha384', 'sha512'] as const;
const ENCODINGS = ['hex', 'base64'] as const;

/** How the receiver recognizes the sender. The key can be a secret, so it is checked when the step runs. */
export const signingInputs = z.discriminatedUnion('scheme', [
  z.strictObject({
    scheme: z.literal('StandardWebhooks').describe('Signs id, timestamp and body according to standardwebhooks.com.'),
    key: z.string().describe('whsec_ and the Base64 of 24 to 64 bytes; env:NAME or file:PATH.'),
  }),
  z.strictObject({
    scheme: z.literal('Hmac').describe('An HMAC of the body in a header.'),
    key: z.string().describe('Key of any length; env:NAME or file:PATH.'),
    header: z
      .string()
      .regex(HEADER_NAME, { error: 'is not a header name' })
      .default('X-Signature')
      .describe('Header that carries the signature; X-Signature by default.'),
    algorithm: z
      .enum(ALGORITHMS)
      .default('sha256')
      .describe(`${ALGORITHMS.join(', ')}; sha256 by default.`),
    encoding: z.enum(ENCODINGS).default('hex').describe('hex or base64; hex by default.'),
    prefix: z
      .string()
      .regex(/^[\x20-\x7e]*$/, { error: 'expected visible ASCII' })
      .default('sha256=')
      .describe('Text before the signature; "sha256=" by default.'),
  }),
]);

type Signing = z.output<typeof signingInputs>;

/** A key or certificate that does not fit its use in the step; the message does not quote it. */
export class BadKeyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BadKeyError';
  }
}

/**
 * The headers that sign a body, with lower-case names. `id` is the same in every attempt of a step, so that a receiver
 * can recognize a retry; `now` is Unix milliseconds. Throws `BadKeyError`.
 */
export function signatureHeaders(
  signing: Signing,
  { id, now, body }: { readonly id: string; readonly now: number; readonly body: Uint8Array | string },
): readonly (readonly [string, string])[] {
  if (signing.scheme === 'Hmac') {
    if (signing.key === '') throw new BadKeyError('signing.key is empty');
    const digest = createHmac(signing.algorithm, signing.key).update(body).digest(signing.encoding);
    return [[signing.header.toLowerCase(), `${signing.prefix}${digest}`]];
  }
  const timestamp = String(Math.floor(now / 1000));
  const digest = createHmac('sha256', standardKey(signing.key))
    .update(`${id}.${timestamp}.`)
    .update(body)
    .digest('base64');
  return [
    ['webhook-id', id],
    ['webhook-timestamp', timestamp],
    ['webhook-signature', `v1,${digest}`],
  ];
}

/** github.com/standard-webhooks/standard-webhooks, "Signature scheme": 192 to 512 bits, Base64, prefix whsec_. */
function standardKey(text: string): Buffer {
  const [, base64 = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
  const key = Buffer.from(base64, 'base64');
  if (key.length >= 24 && key.length <= 64) return key;
  throw new BadKeyError('signing.key is not a key of Standard Webhooks: whsec_ and the Base64 of 24 to 64 bytes');
}
