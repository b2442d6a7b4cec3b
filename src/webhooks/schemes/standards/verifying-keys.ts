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

/** A key of a scheme whose deliveries name their algorithm; the kind of key decides which algorithms may verify. */
export interface VerifyingKey {
  readonly kind: 'secret' | 'rsa' | 'rsaPss' | 'p256' | 'p384' | 'p521' | 'ed25519';
  readonly key: KeyObject;
  /** The id of a JSON Web Key, if it has one, by which the signer names it. */
  readonly id?: string | undefined;
  /** The only algorithm of the key, if it is a JSON Web Key that says so. */
  readonly algorithm?: string | undefined;
}

/** Where a key was configured, and the scheme that it is for. */
interface KeyPlace {
  readonly field: string;
  readonly scheme: string;
  /** The encoding of a secret; public keys show theirs by themselves. */
  readonly encoding?: KeyEncoding | undefined;
}

/**
 * The keys in a text: a secret, or public keys as PEM, SPKI or JSON Web Keys. A public key in any usual form is never
 * taken for a secret, because then everyone who knows it could sign.
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

/** Whether a text is a public key in any usual form. Used as a secret, it would let everyone who knows it sign. */
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

/** Why a text cannot be a secret, because anyone may know it; undefined if it may be a secret. */
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
/** Upper case anywhere; lower case only after a hyphen or a dash, because a secret may contain the same words. */
const PEM_LINE = /(?:BEGIN|END) [A-Z0-9 ]*(?:KEY|CERTIFICATE)|[-–—] ?(?:begin|end) [a-z0-9 ]*(?:key|certificate)/;
const URL_FORM = /^<?https?(?::|%3A)|^\/\/[\w-]+\.[\w.-]+\//i;

/** Curves by the length of both coordinates of a point, in bytes. */
const CURVES: Readonly<Record<number, readonly string[]>> = {
  64: ['prime256v1', 'secp256k1'],
  96: ['secp384r1'],
  132: ['secp521r1'],
};

/**
 * Whether a text is a bare ECDSA public key: both coordinates, with or without the byte before them. Random bytes are
 * never a point in practice; a single coordinate cannot be distinguished from a secret.
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

/** Removes layers that variables may add: quotation marks, a list of one, two-character line breaks, base64 or hex. */
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
    // Only text inside text is unwrapped; DER stays as it is.
    if (inner !== undefined && /^[\x20-\x7e\s]{32,}$/.test(inner)) return unwrapped(inner, layers - 1);
  }
  return bare === '' || (derIn(bare) === undefined && !isPoint(bare)) ? trimmed : bare;
}

/** Bare hex from the forms that programs print: after `0x`, or with colons between bytes. */
function bareHex(text: string): string {
  if (/^0x[0-9a-f]+$/i.test(text)) return text.slice(2);
  return /^[0-9a-f]{2}(?::[0-9a-f]{2})+$/i.test(text) ? text.replaceAll(':', '') : text;
}

/** The secret in a text; undefined for a public key. */
export function sharedSecretIn(text: string, place: KeyPlace): KeyObject | undefined {
  return readVerifyingKeys(text, place).find(({ kind }) => kind === 'secret')?.key;
}

/** Keys of a fetched set, without keys that cannot verify signatures or for which anyone could sign. */
export function keysOfSet(set: Json | undefined): readonly VerifyingKey[] {
  if (!isObject(set) || !Array.isArray(set.keys)) return [];
  return set.keys.slice(0, MAX_KEYS).flatMap((jwk) => {
    try {
      return isObject(jwk) && isForSignatures(jwk) ? [readJsonWebKey(jwk, FETCHED)] : [];
    } catch {
      // A set may have keys of kinds that Sluice does not use.
      return [];
    }
  });
}

const FETCHED: KeyPlace = { field: 'key set', scheme: 'a key set' };

/** Publishers have two or three keys. */
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

/** Never reads a symmetric key, because a set is public. */
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

/** PEM, or its base64, as in variables that must be a single line. */
function pemIn(text: string): string | undefined {
  if (text.includes('-----BEGIN')) return text;
  const decoded = Buffer.from(text, 'base64').toString('latin1');
  return decoded.includes('-----BEGIN') ? decoded : undefined;
}

function derIn(text: string): KeyObject | undefined {
  const bare = text.replace(/\s/g, '');
  for (const encoding of ['base64', 'base64url', 'hex'] as const) {
    const key = decodeExactly(bare, encoding);
    // Keys begin as a sequence, or are PEM after other text. OpenSSL needs longer to refuse a secret than the whole
    // gate.
    if (key === undefined || !(key[0] === 0x30 || key.includes('-----BEGIN'))) continue;
    // A private key first, to refuse it below: its public half could be read too.
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

/** A key of another kind would verify nothing, and a weak key would verify anything. */
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
