import { createPrivateKey, createPublicKey, createSecretKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import type { KeyEncoding } from '../../model/manifest.ts';
import { GateConfigurationError } from '../gate.ts';
import type { CertificateSource, SignatureSpec } from './spec.ts';
import { decodeExactly, KEY_PAIRS, usesKeyPair } from './values.ts';

/** A key in the form that the signature functions take. Node 24 takes 8 µs longer for an HMAC whose key is a Buffer. */
export interface SchemeKey {
  readonly kind: 'hmac' | 'ed25519' | 'ecdsaP256' | 'rsa' | 'token' | 'name';
  readonly key: KeyObject;
  /** The text of the trigger's key, if `key` comes from the publisher's certificate. */
  readonly name?: string | undefined;
}

// The DER bytes before the raw 32 bytes: RFC 8410, sections 4 and 7.
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

/** Length of an Ed25519 public key, and of the seed of a private key. */
const KEY_BYTES = 32;

/** Reads a configured key for verifying; `field` is where it was configured. */
export function readVerificationKey(spec: SignatureSpec, text: string, field: string): SchemeKey {
  if (spec.certificate !== undefined) return readName(spec.certificate, text, field);
  return readKey(spec, text, { field, half: 'public' });
}

/** Reads a key for signing; errors name it by `field`. */
export function readSigningKey(spec: SignatureSpec, text: string, field: string): SchemeKey {
  return readKey(spec, text, { field, half: 'private' });
}

/** Where a key was configured, and which half of a pair it must be. */
interface WantedKey {
  readonly field: string;
  readonly half: 'public' | 'private';
}

/** Never takes a public key for a secret if the scheme has both: everyone who knows the public key could sign. */
function readKey(spec: SignatureSpec, text: string, wanted: WantedKey): SchemeKey {
  const { algorithm, ed25519: variant, name: scheme } = spec;
  const { field, half } = wanted;
  const kind = pairKind(spec);
  if (kind !== undefined) return (half === 'public' ? readPublicKey : readPrivateKey)(kind, text, { field, scheme });
  if (algorithm === 'token') return { kind: 'token', key: createSecretKey(tokenBytes(spec, text, field)) };
  if (algorithm === 'ed25519') {
    const raw = ed25519Bytes(spec, text);
    if (raw !== undefined) return ed25519Key(raw, wanted);
    if (isWrapped(text))
      return (half === 'public' ? readPublicKey : readPrivateKey)('ed25519', text, { field, scheme });
    throw new GateConfigurationError(field, `is not a ${half} key of ${scheme}, which is ${ed25519Form(spec)}`);
  }
  if (
    variant !== undefined &&
    text.startsWith(half === 'public' ? variant.privateKeyPrefix : variant.publicKeyPrefix)
  ) {
    const message =
      half === 'public'
        ? `is a private key; ${scheme} verifies with the public key, which starts with "${variant.publicKeyPrefix}"`
        : `is a public key; signing takes the private key, which starts with "${variant.privateKeyPrefix}"`;
    throw new GateConfigurationError(field, message);
  }
  const prefix = half === 'public' ? variant?.publicKeyPrefix : variant?.privateKeyPrefix;
  if (prefix !== undefined && text.startsWith(prefix)) return ed25519Key(prefixedBytes(prefix, text, wanted), wanted);
  return { kind: 'hmac', key: createSecretKey(secretBytes(spec, text, field)) };
}

function tokenBytes({ isUserAndPassword, name }: SignatureSpec, text: string, field: string): Buffer {
  const bytes = Buffer.from(text);
  if (isUserAndPassword !== true) return bytes;
  if (!text.includes(':')) throw new GateConfigurationError(field, `is not a key of ${name}, which is user:password`);
  return Buffer.from(bytes.toString('base64'));
}

/** Not a secret: the name by which a publisher that signs for everyone shows that a delivery is for this trigger. */
function readName({ keyIs, keyForm }: CertificateSource, text: string, field: string): SchemeKey {
  if (keyForm.exec(text)?.[0] !== text) throw new GateConfigurationError(field, `is not ${keyIs}`);
  return { kind: 'name', key: createSecretKey(Buffer.from(text)), name: text };
}

type PairKind = 'ecdsaP256' | 'rsa' | 'ed25519';

/** The kind of a key pair whose keys are never raw bytes; undefined for other algorithms. */
function pairKind({ algorithm }: SignatureSpec): PairKind | undefined {
  const kind = usesKeyPair(algorithm) ? KEY_PAIRS[algorithm].kind : undefined;
  return kind === 'ed25519' ? undefined : kind;
}

/** With fewer bits, the private key can be calculated from the public one: NIST SP 800-131A. */
const MIN_RSA_BITS = 2048;

/** Where a key was configured, and the scheme that it is for. */
interface KeyPlace {
  readonly field: string;
  readonly scheme: string;
}

/** PEM, JWK, or the base64 of its DER: SPKI, as publishers show it. */
export function readPublicKey(kind: PairKind, text: string, place: KeyPlace): SchemeKey {
  const { field, scheme } = place;
  // Node would derive the public key from a private one.
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text) || jwkOf(text)?.d !== undefined) {
    throw new GateConfigurationError(field, `is a private key; ${scheme} verifies with the publisher's public key`);
  }
  if (/-----BEGIN CERTIFICATE-----/.test(text)) {
    throw new GateConfigurationError(field, `is a certificate; ${scheme} takes the public key alone`);
  }
  const key = orUndefined(() => createPublicKey(keySource(text, 'spki')));
  if (key !== undefined) return { kind, key: checkedKey(key, kind, place) };
  const isPrivate = orUndefined(() => createPrivateKey(keySource(text, 'pkcs8'))) !== undefined;
  const what = isPrivate
    ? `is a private key; ${scheme} verifies with the publisher's public key`
    : `is not a public key of ${scheme}, which is PEM (BEGIN PUBLIC KEY), a JWK or the base64 of SPKI`;
  throw new GateConfigurationError(field, what);
}

/** For signing a test delivery: PEM, JWK, or the base64 of PKCS #8. */
function readPrivateKey(kind: PairKind, text: string, place: KeyPlace): SchemeKey {
  const key = orUndefined(() => createPrivateKey(keySource(text, 'pkcs8')));
  if (key !== undefined) return { kind, key: checkedKey(key, kind, place) };
  const what = `is not a private key of ${place.scheme}, which is PEM (BEGIN PRIVATE KEY), a JWK or the base64 of PKCS #8`;
  throw new GateConfigurationError(place.field, what);
}

function keySource<Type extends 'spki' | 'pkcs8'>(text: string, type: Type) {
  // Environment variables often hold line ends as \\n.
  if (text.includes('-----BEGIN')) return { key: text.replaceAll('\\n', '\n'), format: 'pem' as const };
  const jwk = jwkOf(text);
  if (jwk !== undefined) return { key: jwk, format: 'jwk' as const };
  return { key: decodeExactly(text.replace(/\s/g, ''), 'base64') ?? Buffer.alloc(0), format: 'der' as const, type };
}

function jwkOf(text: string): JsonWebKey | undefined {
  const jwk = orUndefined((): unknown => JSON.parse(text));
  return typeof jwk === 'object' && jwk !== null && 'kty' in jwk ? (jwk as JsonWebKey) : undefined;
}

/** Whether a text is an Ed25519 key in PEM, JWK or DER, not raw bytes. */
function isWrapped(text: string): boolean {
  const der = decodeExactly(text.replace(/\s/g, ''), 'base64');
  return text.includes('-----BEGIN') || jwkOf(text) !== undefined || DER_LENGTHS.includes(der?.length ?? 0);
}

const DER_LENGTHS = [SPKI_PREFIX.length + KEY_BYTES, PKCS8_PREFIX.length + KEY_BYTES];

/** Names of each kind of key: Node's, and one for people. */
const WANTED: Readonly<Record<PairKind, readonly [string, string]>> = {
  rsa: ['rsa', 'RSA'],
  ecdsaP256: ['prime256v1', 'ECDSA on the curve P-256'],
  ed25519: ['ed25519', 'Ed25519'],
};

/** A key of another kind would verify nothing, and a weak key would verify anything. */
function checkedKey(key: KeyObject, kind: PairKind, { field, scheme }: KeyPlace): KeyObject {
  const { asymmetricKeyType, asymmetricKeyDetails: details = {} } = key;
  const given = details.namedCurve ?? asymmetricKeyType ?? 'unknown';
  const [type, wanted] = WANTED[kind];
  if (given !== type)
    throw new GateConfigurationError(field, `is a key of the kind ${given}; ${scheme} signs with ${wanted}`);
  refuseWeakKey(key, field);
  return key;
}

/** Refuses a key for which anyone can sign, or soon could. */
export function refuseWeakKey(key: KeyObject, field: string): void {
  const { asymmetricKeyType: type = '', asymmetricKeyDetails: { modulusLength = 0, publicExponent = 0n } = {} } = key;
  if (type === 'ed25519' && key.type === 'public') {
    refuseWeakPoint(Buffer.from(key.export({ format: 'jwk' }).x ?? '', 'base64url'), field);
  }
  if (!type.startsWith('rsa')) return;
  if (modulusLength < MIN_RSA_BITS) {
    throw new GateConfigurationError(field, `is an RSA key of ${modulusLength} bits; ${MIN_RSA_BITS} are the least`);
  }
  if (publicExponent < 3n) throw new GateConfigurationError(field, 'is an RSA key that anyone can sign for');
}

/** Decoders throw for anything that is not a key, and their errors may quote the text. */
export function orUndefined<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** The bytes of the secret that a text encodes. */
export function secretBytes(
  { keyEncoding = 'utf8', name }: Pick<SignatureSpec, 'keyEncoding' | 'name'>,
  text: string,
  field: string,
): Buffer {
  const bytes = decodeKey(text, keyEncoding);
  if (bytes !== undefined && (bytes.length > 0 || keyEncoding === 'utf8')) return bytes;
  throw new GateConfigurationError(field, `is not a key of ${name}, which is ${ENCODED[keyEncoding]}`);
}

const ENCODED: Readonly<Record<KeyEncoding, string>> = {
  utf8: 'text',
  base64: 'standard base64',
  whsec: 'standard base64, "whsec_" or "v1,whsec_" in front of it or not',
  hex: 'hex',
};

/** The raw key of a scheme with Ed25519 only, as the publisher shows it; undefined if the text is not such a key. */
function ed25519Bytes({ keyEncoding }: SignatureSpec, text: string): Buffer | undefined {
  const encodings = keyEncoding === undefined ? RAW_ENCODINGS : [keyEncoding];
  return encodings.map((encoding) => decodeKey(text, encoding)).find((bytes) => bytes?.length === KEY_BYTES);
}

function ed25519Form({ keyEncoding }: SignatureSpec): string {
  const encodings = keyEncoding === undefined ? RAW_ENCODINGS : [keyEncoding];
  return `${KEY_BYTES} bytes in ${encodings.map((encoding) => ENCODED[encoding]).join(' or ')}, PEM or a JWK`;
}

const RAW_ENCODINGS = ['hex', 'base64'] as const;

/** The prefix of Standard Webhooks keys; some services also put the signature's version there. */
const WHSEC = /^(?:v1,)?whsec_/;

function decodeKey(text: string, encoding: KeyEncoding): Buffer | undefined {
  if (encoding === 'utf8') return Buffer.from(text);
  return encoding === 'whsec' ? decodeExactly(text.replace(WHSEC, ''), 'base64') : decodeExactly(text, encoding);
}

/** The key bytes after a prefix; the public key may follow a private key. */
function prefixedBytes(prefix: string, text: string, { field, half }: WantedKey): Buffer {
  const bytes = decodeExactly(text.slice(prefix.length), 'base64');
  const lengths = half === 'public' ? [KEY_BYTES] : [KEY_BYTES, 2 * KEY_BYTES];
  if (bytes !== undefined && lengths.includes(bytes.length)) return bytes.subarray(0, KEY_BYTES);
  const orBoth = half === 'public' ? '' : ', or of 64 with the public key,';
  throw new GateConfigurationError(field, `must hold the base64 of 32 bytes${orBoth} after "${prefix}"`);
}

function ed25519Key(bytes: Buffer, { field, half }: WantedKey): SchemeKey {
  if (half === 'private') {
    const der = Buffer.concat([PKCS8_PREFIX, bytes]);
    return { kind: 'ed25519', key: createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }) };
  }
  refuseWeakPoint(bytes, field);
  const der = Buffer.concat([SPKI_PREFIX, bytes]);
  return { kind: 'ed25519', key: createPublicKey({ key: der, format: 'der', type: 'spki' }) };
}

/** The prime of Ed25519's field: RFC 8032, section 5.1. */
const P = (1n << 255n) - 19n;
/** The y of the points whose order divides 8, each with two signs of x. */
const Y_OF_ORDER_8 = BigInt('0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826');
const SMALL_ORDER: ReadonlySet<bigint> = new Set([0n, 1n, P - 1n, Y_OF_ORDER_8, P - Y_OF_ORDER_8]);

/**
 * Refuses a key for which anyone can sign: with a point of small order, signatures made without a private key satisfy
 * the verified equation. OpenSSL 3.0 accepts all such points, 3.5 does not. A y beyond the prime is reduced by the
 * prime.
 */
function refuseWeakPoint(bytes: Buffer, field: string): void {
  const y = BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`) & ((1n << 255n) - 1n);
  if (SMALL_ORDER.has(y % P)) {
    throw new GateConfigurationError(
      field,
      'is a point of small order, for which anyone can sign without a private key',
    );
  }
  if (y >= P) throw new GateConfigurationError(field, 'is not the canonical encoding of a public key');
}
