import { createHash, createHmac } from 'node:crypto';
import type { BareItem, InnerList, Item, Parameters } from 'structured-headers';
import { signatureBase } from './message-components.ts';
import type { JwtRule, MessageRule, StandardScheme } from './standard.ts';
import { readVerifyingKeys } from './verifying-keys.ts';

interface StandardSigningRequest {
  readonly standard: StandardScheme;
  /** As it would be configured on the trigger: a secret, for nobody else has another one. */
  readonly key: string;
  readonly body: Buffer;
  /** Absolute, as the receiver knows itself. */
  readonly url: string;
  readonly timestampMs: number;
  readonly deliveryId: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Whether what a trigger verifies with also signs. */
export function isSharedSecret({ name }: Pick<StandardScheme, 'name'>, text: string): boolean {
  return readVerifyingKeys(text, { field: 'key', scheme: name }).every(({ kind }) => kind === 'secret');
}

/** Headers of a delivery that the trigger's rule accepts. Throws where the key signs nothing. */
export async function signByStandard(request: StandardSigningRequest): Promise<Record<string, string>> {
  if (!isSharedSecret(request.standard, request.key)) throw new Error('the key is no secret, so it signs nothing');
  const { rule } = request.standard;
  return rule.standard === 'Jwt' ? signJwt(rule, request) : signMessage(rule, request);
}

async function signJwt(
  { header, prefix, issuer, audience, bodyHashClaim }: JwtRule,
  { key, body, timestampMs, deliveryId }: StandardSigningRequest,
): Promise<Record<string, string>> {
  const { SignJWT } = await import('jose');
  const hash = createHash('sha256').update(body).digest('hex');
  const token = new SignJWT(bodyHashClaim === undefined ? {} : { [bodyHashClaim]: hash })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setIssuedAt(Math.trunc(timestampMs / 1000))
    .setJti(deliveryId);
  if (issuer !== undefined) token.setIssuer(issuer);
  if (audience !== undefined) token.setAudience(audience);
  return { [header]: `${prefix}${await token.sign(Buffer.from(key))}` };
}

async function signMessage(
  { components, keyId }: MessageRule,
  { key, body, url, timestampMs, deliveryId, headers }: StandardSigningRequest,
): Promise<Record<string, string>> {
  const fields = await import('structured-headers');
  const digest = `sha-256=:${createHash('sha256').update(body).digest('base64')}:`;
  const sent = { ...headers, 'content-digest': digest };
  const delivery = {
    id: deliveryId,
    receivedAt: timestampMs,
    method: 'POST',
    path: '',
    requestUrl: url,
    headers: sent,
    body,
    clientIp: '127.0.0.1',
  };
  const items = components.map((component): Item => {
    const [name = '', ...rest] = component.split(';');
    return fields.parseItem([`"${name}"`, ...rest].join(';'));
  });
  const parameters: Parameters = new Map<string, BareItem>([['created', Math.trunc(timestampMs / 1000)]]);
  if (keyId !== undefined) parameters.set('keyid', keyId);
  const input: InnerList = [items, parameters];
  const covered = items.map(([name, own]) => ({ name: String(name), own, id: fields.serializeItem([name, own]) }));
  const base = signatureBase(covered, { input, fields, request: { delivery, publicUrl: url } });
  const signature = createHmac('sha256', key).update(base).digest('base64');
  return {
    'Content-Digest': digest,
    'Signature-Input': `sig1=${fields.serializeInnerList(input)}`,
    Signature: `sig1=:${signature}:`,
  };
}
