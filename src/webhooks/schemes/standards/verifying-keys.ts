import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  ECDH,
  type JsonWebKey,
  type KeyObject,
  X509Certificate,
} from 'node:crypto';
import type { Json, JsonObject } from '../../../model/json.ts';
import type { KeyEncoding } from '../../../model/manifest.ts';
import { GateConfigurationError } from '../../gate.ts';
import { orUndefined, refuseWeakKey, secretBytes } from '../scheme-keys.ts';
import { decodeExactly, isObject, parseJson } from '../values.ts';

/** A key of a scheme whose deliveries say by which algorithm they are signed: its kind decides which of them may. */
export interface VerifyingKey {
  readonly kind: 'secret' | 'rsa' | 'rsaPss' | 'p256' | 'p384' | 'p521' | 'ed25519';
  readonly key: KeyObject;
  /** Of a JSON Web Key that has one: what the signer names it by. */
  readonly id?: string | undefined;
  /** The only algorithm that it is for, where a JSON Web Key says so. */
  readonly algorithm?: string | undefined;
}

/** Where a key was configured, and the scheme that it is for. */
interface KeyPlace {
  readonly field: string;
  readonly scheme: string;
  /** Of a secret; a public key tells its form itself. */
  readonly encoding?: KeyEncoding | undefined;
}

/**
 * The keys that a text holds: a secret, or the public keys of a PEM, of an SPKI or of JSON Web Keys. What is a public key in any
 * usual form is never taken for a secret, with which everyone who knows it could sign.
 */
export function readVerifyingKeys(given: string, place: KeyPlace): readonly VerifyingKey[] {
  const text = unwrapped(given);
  const json = jsonIn(text);
  if (json !== undefined) return readJsonWebKeys(json, place);
  const pem = pemIn(text);
  if (pem !== undefined) return [readPem(pem, place)];
  const der = derIn(text);
  if (der !== undefined) return [checked(classify(der), place)];
  const why = whyNoSecret(text);
  if (why !== undefined) throw new GateConfigurationError(place.field, why);
  const { field, scheme: name, encoding: keyEncoding } = place;
  return [{ kind: 'secret', key: createSecretKey(secretBytes({ name, keyEncoding }, given, field)) }];
}

/** Whether a text is a public key in any usual form: as a secret, everyone who knows it could sign. */
export function isPublicKey(given: string): boolean {
  const text = unwrapped(given);
  if (SSH.test(text) || text.startsWith(WEBHOOK_PUBLIC_KEY) || isPoint(text)) return true;
  if (PEM_LINE.test(text)) return !/PRIVATE KEY/i.test(text);
  const json = jsonIn(text);
  if (json !== undefined) {
    const keys = Array.isArray(json.keys) ? json.keys : [json];
    return keys.some((jwk) => isObject(jwk) && typeof jwk.kty === 'string' && jwk.kty !== 'oct' && jwk.d === undefined);
  }
  return derIn(text)?.type === 'public';
}

/** Why a text cannot be a secret: anyone may know it. Undefined for what may be one. */
function whyNoSecret(text: string): string | undefined {
  if (SSH.test(text)) return 'is an SSH public key; write it as PEM (BEGIN PUBLIC KEY)';
  if (PEM_LINE.test(text)) return 'looks like PEM, but does not begin as PEM does';
  if (URL_FORM.test(text)) return 'is a URL, which anyone may know; that of a key set belongs in webhookJwksUrl';
  if (text.startsWith(WEBHOOK_PUBLIC_KEY))
    return 'is a public key of Standard Webhooks; write it as PEM (BEGIN PUBLIC KEY)';
  return isPoint(text)
    ? 'is a point of a curve, as public keys have one; write it as PEM (BEGIN PUBLIC KEY)'
    : undefined;
}

const WEBHOOK_PUBLIC_KEY = 'whpk_';
/** In capitals as it is, else behind a hyphen or a dash: words of a secret may be the same. */
const PEM_LINE = /(?:BEGIN|END) [A-Z0-9 ]*(?:KEY|CERTIFICATE)|[-–—] ?(?:begin|end) [a-z0-9 ]*(?:key|certificate)/;
const URL_FORM = /^<?https?(?::|%3A)|^\/\/[\w-]+\.[\w.-]+\//i;

/** Curves of points by the bytes of both coordinates. */
const CURVES: Readonly<Record<number, readonly string[]>> = {
  64: ['prime256v1', 'secp256k1'],
  96: ['secp384r1'],
  132: ['secp521r1'],
};

/**
 * Whether a text is a public key of ECDSA without its frame: both coordinates, with the byte before them or without. That
 * random bytes are a point does not happen; one coordinate alone is any secret.
 */
function isPoint(text: string): boolean {
  return (['hex', 'base64', 'base64url'] as const).some((encoding) => {
    const bytes = decodeExactly(text, encoding);
    if (bytes === undefined) return false;
    const point = bytes.byteLength % 2 === 1 ? bytes : Buffer.concat([Buffer.of(4), bytes]);
    const curves = point[0] === 4 ? (CURVES[point.byteLength - 1] ?? []) : [];
    return curves.some((curve) => orUndefined(() => ECDH.convertKey(point, curve)) !== undefined);
  });
}

function jsonIn(text: string): JsonObject | undefined {
  const json = text.startsWith('{') ? parseJson(Buffer.from(text)) : undefined;
  return isObject(json) ? json : undefined;
}

const SSH = /^(?:(?:sk-)?ssh-|(?:sk-)?ecdsa-sha2-|AAAA[BC]3NzaC1|AAAAE2VjZHNhLXNoYTIt|---- BEGIN SSH2)/;

/** Layers that a text of variables may have: quotation marks, a list of one, line breaks as two characters, base64 or hex. */
function unwrapped(text: string, layers = 4): string {
  const trimmed = text.trim().replace(/^\uFEFF/, '');
  if (layers === 0) return trimmed;
  const json = /^["[]/.test(trimmed) ? parseJson(Buffer.from(trimmed)) : undefined;
  if (typeof json === 'string') return unwrapped(json, layers - 1);
  if (Array.isArray(json) && json.length > 0) return unwrapped(JSON.stringify({ keys: json }), layers - 1);
  if (trimmed.includes('\\n')) return unwrapped(trimmed.replaceAll('\\n', '\n'), layers - 1);
  if (trimmed.startsWith('{') || trimmed.includes('-----BEGIN')) return trimmed;
  const bare = bareHex(trimmed.replace(/\s/g, ''));
  for (const encoding of ['hex', 'base64', 'base64url'] as const) {
    const inner = decodeExactly(bare, encoding)?.toString('latin1');
    // Text within text: what DER is stays as it is.
    if (inner !== undefined && /^[\x20-\x7e\s]{32,}$/.test(inner)) return unwrapped(inner, layers - 1);
  }
  return bare === '' || (derIn(bare) === undefined && !isPoint(bare)) ? trimmed : bare;
}

/** Hex as programs print it: behind `0x`, or with colons between bytes. */
function bareHex(text: string): string {
  if (/^0x[0-9a-f]+$/i.test(text)) return text.slice(2);
  return /^[0-9a-f]{2}(?::[0-9a-f]{2})+$/i.test(text) ? text.replaceAll(':', '') : text;
}

/** The secret that a text is; undefined for a public key. */
export function sharedSecretIn(text: string, place: KeyPlace): KeyObject | undefined {
  return readVerifyingKeys(text, place).find(({ kind }) => kind === 'secret')?.key;
}

/** Keys of a set that is fetched: those that cannot verify signatures, or that anyone could sign for, are left out. */
export function keysOfSet(set: Json | undefined): readonly VerifyingKey[] {
  if (!isObject(set) || !Array.isArray(set.keys)) return [];
  return set.keys.slice(0, MAX_KEYS).flatMap((jwk) => {
    try {
      return isObject(jwk) && isForSignatures(jwk) ? [readJsonWebKey(jwk, FETCHED)] : [];
    } catch {
      // A set may have keys of kinds that nobody here verifies with.
      return [];
    }
  });
}

const FETCHED: KeyPlace = { field: 'key set', scheme: 'a key set' };

/** Publishers have two or three. */
const MAX_KEYS = 100;

function readJsonWebKeys(json: JsonObject, place: KeyPlace): readonly VerifyingKey[] {
  if (!('keys' in json)) return [readJsonWebKey(json, place)];
  const keys = keysOfSet(json);
  if (keys.length === 0) throw new GateConfigurationError(place.field, 'is a key set without a public key');
  return keys;
}

function isForSignatures({ use, key_ops: operations }: JsonObject): boolean {
  const isOfUse = use === undefined || use === 'sig';
  return isOfUse && (operations === undefined || (Array.isArray(operations) && operations.includes('verify')));
}

/** Never a symmetric one: a set is public. */
function readJsonWebKey(jwk: JsonObject, place: KeyPlace): VerifyingKey {
  const { field, scheme } = place;
  if (typeof jwk.kty !== 'string') {
    throw new GateConfigurationError(field, 'is JSON, but no JSON Web Key: it has no member "kty"');
  }
  if (jwk.kty === 'oct') {
    throw new GateConfigurationError(field, 'is a secret as a JSON Web Key; write the secret itself');
  }
  if (jwk.d !== undefined) throw new GateConfigurationError(field, privateKey(scheme));
  const key = orUndefined(() => createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' }));
  if (key === undefined) throw new GateConfigurationError(field, 'is no JSON Web Key that can be read');
  const { kid, alg } = jwk;
  return {
    ...checked(classify(key), place),
    id: typeof kid === 'string' ? kid : undefined,
    algorithm: typeof alg === 'string' ? alg : undefined,
  };
}

function readPem(pem: string, place: KeyPlace): VerifyingKey {
  const { field, scheme } = place;
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) throw new GateConfigurationError(field, privateKey(scheme));
  if (/-----BEGIN CERTIFICATE-----/.test(pem)) {
    throw new GateConfigurationError(field, `is a certificate; ${scheme} takes the public key alone`);
  }
  const key = orUndefined(() => createPublicKey(pem));
  if (key === undefined) throw new GateConfigurationError(field, 'is PEM, but no public key (BEGIN PUBLIC KEY)');
  return checked(classify(key), place);
}

const privateKey = (scheme: string) => `is a private key; ${scheme} verifies with the publisher's public key`;

/** PEM, or the base64 of it, as variables hold it that must have one line. */
function pemIn(text: string): string | undefined {
  if (text.includes('-----BEGIN')) return text;
  const decoded = Buffer.from(text, 'base64').toString('latin1');
  return decoded.includes('-----BEGIN') ? decoded : undefined;
}

function derIn(text: string): KeyObject | undefined {
  const bare = text.replace(/\s/g, '');
  for (const encoding of ['base64', 'base64url', 'hex'] as const) {
    const key = decodeExactly(bare, encoding);
    // All begin as a sequence, or are PEM behind other text. To refuse a secret takes OpenSSL longer than all else of its gate.
    if (key === undefined || !(key[0] === 0x30 || key.includes('-----BEGIN'))) continue;
    // A private key first, for its public half would be read too: it is refused below.
    const read =
      orUndefined(() => createPrivateKey({ key, format: 'der', type: 'pkcs8' })) ??
      orUndefined(() => createPublicKey({ key, format: 'der', type: 'spki' })) ??
      orUndefined(() => createPublicKey({ key, format: 'der', type: 'pkcs1' })) ??
      orUndefined(() => new X509Certificate(key).publicKey);
    if (read !== undefined) return read;
  }
  return undefined;
}

type Classified = Omit<VerifyingKey, 'kind'> & { readonly kind: VerifyingKey['kind'] | undefined };

function classify(key: KeyObject): Classified {
  const { asymmetricKeyType: type, asymmetricKeyDetails: { namedCurve = '' } = {} } = key;
  const curves: Readonly<Record<string, VerifyingKey['kind']>> = {
    prime256v1: 'p256',
    secp384r1: 'p384',
    secp521r1: 'p521',
  };
  if (type === 'ec') return { kind: curves[namedCurve], key };
  const kinds: Readonly<Record<string, VerifyingKey['kind']>> = { rsa: 'rsa', 'rsa-pss': 'rsaPss', ed25519: 'ed25519' };
  return { kind: kinds[type ?? ''], key };
}

/** A key of another kind verifies nothing, and a weak one anything. */
function checked({ kind, key, ...rest }: Classified, { field, scheme }: KeyPlace): VerifyingKey {
  if (key.type === 'private') throw new GateConfigurationError(field, privateKey(scheme));
  if (kind === undefined) {
    throw new GateConfigurationError(
      field,
      'is a key of another kind than RSA, ECDSA (P-256, P-384, P-521) and Ed25519',
    );
  }
  refuseWeakKey(key, field);
  return { kind, key, ...rest };
}
