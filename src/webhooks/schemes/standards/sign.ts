import { createHash, createHmac, type KeyObject } from 'node:crypto';
import type { BareItem, InnerList, Item, Parameters } from 'structured-headers';
import { signatureBase } from './message-components.ts';
import type { JwtRule, MessageRule, StandardScheme } from './standard.ts';
import { readVerifyingKeys, sharedSecretIn } from './verifying-keys.ts';

interface StandardSigningRequest {
  readonly standard: StandardScheme;
  /** The key as configured on the trigger. It must be a secret: only the publisher has the private key of a pair. */
  readonly key: string;
  readonly body: Buffer;
  /** The receiver's own URL, absolute. */
  readonly url: string;
  readonly timestampMs: number;
  readonly deliveryId: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
}

type SecretSigningRequest = Omit<StandardSigningRequest, 'key'> & { readonly secret: KeyObject };

/** Whether the key that verifies also signs. */
export function isSharedSecret(standard: StandardScheme, text: string): boolean {
  return readVerifyingKeys(text, placeOf(standard)).every(({ kind }) => kind === 'secret');
}

function placeOf({ name, rule }: StandardScheme) {
  return { field: 'key', scheme: name, encoding: rule.keyEncoding };
}

/** Headers of a delivery that the trigger's rule accepts. Throws if the key cannot sign. */
export async function signByStandard(request: StandardSigningRequest): Promise<Record<string, string>> {
  const { standard, key } = request;
  const secret = sharedSecretIn(key, placeOf(standard));
  if (secret === undefined) throw new Error('the key is no secret, so it signs nothing');
  const { rule } = standard;
  if (rule.standard === 'Jwt' && rule.carrier !== 'header') throw new Error(`only ${standard.name} signs so`);
  return rule.standard === 'Jwt' ? signJwt(rule, { ...request, secret }) : signMessage(rule, { ...request, secret });
}

async function signJwt(
  { header, prefix, issuer, audience, bodyHashClaim, requiredClaims, time, urlHash }: JwtRule,
  { secret, body, url, timestampMs, deliveryId }: SecretSigningRequest,
): Promise<Record<string, string>> {
  const { SignJWT } = await import('jose');
  const hash = (content: string | Buffer) => createHash('sha256').update(content).digest('hex');
  const seconds = Math.trunc(timestampMs / 1000);
  const token = new SignJWT({
    ...(bodyHashClaim !== undefined && { [bodyHashClaim]: hash(body) }),
    ...(urlHash !== undefined && {
      [urlHash.claim]: hash(urlHash.of === 'url' ? url : `POST&${new URL(url).pathname}&`),
    }),
    [time.name]: seconds,
  })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setIssuedAt(seconds)
    .setJti(deliveryId);
  if (requiredClaims.includes('exp')) token.setExpirationTime(seconds + 300);
  if (issuer !== undefined) token.setIssuer(issuer);
  if (audience !== undefined) token.setAudience(audience);
  return { [header]: `${prefix}${await token.sign(secret)}` };
}

async function signMessage(
  { components, keyId }: MessageRule,
  { secret, body, url, timestampMs, deliveryId, headers }: SecretSigningRequest,
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
  const signature = createHmac('sha256', secret).update(base).digest('base64');
  return {
    'Content-Digest': digest,
    'Signature-Input': `sig1=${fields.serializeInnerList(input)}`,
    Signature: `sig1=:${signature}:`,
  };
}
