import { createHash, generateKeyPairSync, randomBytes, sign as signAsymmetric } from 'node:crypto';
import { decodeForm, URL_ENCODED_FORM } from '../../model/form.ts';
import type { Json } from '../../model/json.ts';
import { GateConfigurationError } from '../gate.ts';
import { hasPart } from './layout.ts';
import { readSigningKey, type SchemeKey } from './scheme-keys.ts';
import { BODY_HASH_PARAMETER, type SignedBytes, signedPayload, withoutFragment } from './signed-payload.ts';
import type { BodyField, NamedPart, SignatureSpec, SpecAlgorithm } from './spec.ts';
import {
  bodyReader,
  EACH,
  encodeDigest,
  headerOf,
  isObject,
  KEY_PAIRS,
  mediaTypeOf,
  parseJson,
  timestampText,
  usesKeyPair,
} from './values.ts';
import { hmac } from './verify.ts';

export interface SigningRequest {
  readonly spec: SignatureSpec;
  /** As it would be configured on the trigger; the private key if the scheme has a pair. */
  readonly key: string;
  readonly body: Buffer;
  /** The receiver's own URL, absolute. */
  readonly url: string;
  readonly timestampMs: number;
  readonly deliveryId: string;
  readonly contentType?: string | undefined;
  /** Other headers to send. Headers that the scheme signs are made up if they are missing here. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** The request to send. Body and URL are the given ones, unless the scheme keeps something in them. */
export interface SignedDelivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly url: string;
}

/** Whether the key that verifies also signs; not if the publisher keeps a private key. */
export function signsWithSameKey({ algorithm, certificate }: SignatureSpec): boolean {
  return certificate === undefined && !usesKeyPair(algorithm);
}

/** A random key in the form that the scheme takes; the private key if the scheme has a pair. */
export function randomKey({ keyEncoding, algorithm, isUserAndPassword }: SignatureSpec): string {
  if (algorithm === 'ecdsaP256' || algorithm === 'rsaSha256' || algorithm === 'rsaSha1') {
    const { privateKey } =
      algorithm === 'ecdsaP256'
        ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
        : generateKeyPairSync('rsa', { modulusLength: 2048 });
    return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  }
  const bytes = randomBytes(32);
  if (isUserAndPassword === true) return `sluice:${bytes.toString('hex')}`;
  if (keyEncoding === 'base64') return bytes.toString('base64');
  if (keyEncoding === 'whsec') return `whsec_${bytes.toString('base64')}`;
  // Some publishers take only letters and digits.
  return bytes.toString('hex');
}

/** A text to write into a field of the body. */
interface Insertion {
  readonly field: BodyField;
  readonly text: string;
}

/**
 * Signs a delivery as the publisher would, from the same spec that the verifier reads. Throws if the key or the body
 * does not suit the scheme.
 */
export function signDelivery(request: SigningRequest): SignedDelivery {
  const { spec, contentType } = request;
  const unsigned = withSignedFields(request);
  const url = signedUrl(request);
  const key = signingKey(spec, request.key);
  const headers = signedHeaders(request);
  const signature = signatureText(spec, key, signedBytes(request, unsigned, { url, headers }));
  const family = spec.headers[0];
  const timestamp = timestampText(request.timestampMs, spec.timestamp?.unit ?? 'seconds');
  if (family?.timestamp !== undefined) headers[family.timestamp] = timestamp;
  if (family?.deliveryId !== undefined) headers[family.deliveryId] = request.deliveryId;
  const line = signatureLine(spec, key, { signature, timestamp });
  if (family !== undefined) headers[family.signature] = line;
  const signatureField = spec.signatureFields?.[0];
  const body =
    signatureField === undefined ? unsigned : withField(unsigned, contentType, { field: signatureField, text: line });
  return { headers, body, url };
}

function signingKey(spec: SignatureSpec, text: string): SchemeKey {
  try {
    return readSigningKey(spec, text, 'key');
  } catch (error) {
    if (error instanceof GateConfigurationError) throw new Error(`the key ${error.message}`, { cause: error });
    throw error;
  }
}

/** The content type, and headers that the scheme signs in addition to its own. */
function signedHeaders({ spec, contentType, deliveryId, headers: given = {} }: SigningRequest): Record<string, string> {
  const headers: Record<string, string> = contentType === undefined ? {} : { 'content-type': contentType };
  for (const { name, length = deliveryId.length } of partsOf(spec, 'header')) {
    headers[name] ??= headerOf(lowerCase(given), name) ?? deliveryId.padEnd(length, '0').slice(0, length);
  }
  for (const it of spec.signs) {
    if (typeof it !== 'string' && it.part === 'headers') headers[it.name] ??= it.must.join(',');
  }
  return headers;
}

/** The headers, or the parameters of the query, that the scheme signs. */
function partsOf({ signs }: SignatureSpec, kind: 'header' | 'query'): NamedPart[] {
  return signs.flatMap((it) => (typeof it !== 'string' && it.part === kind ? [it] : []));
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** The body with timestamp and token added, if the scheme keeps them there. */
function withSignedFields(request: SigningRequest): Buffer {
  const { spec, contentType } = request;
  const insertions: Insertion[] = [];
  if (spec.timestamp?.in === 'body') {
    insertions.push({ field: spec.timestamp.field, text: timestampText(request.timestampMs, spec.timestamp.unit) });
  }
  for (const it of spec.signs) {
    if (typeof it === 'string' || it.part !== 'field' || it.isToken !== true) continue;
    const token = createHash('sha256').update(request.deliveryId).digest('hex');
    insertions.push({ field: it.field, text: token.slice(0, it.field.length) });
  }
  return insertions.reduce((body, insertion) => withField(body, contentType, insertion), request.body);
}

/** The URL with the parameters that the scheme signs. Only a hash in the URL covers a body that is not a form. */
function signedUrl({ spec, body, url: given, contentType, deliveryId }: SigningRequest): string {
  const missing = partsOf(spec, 'query').filter(({ name }) => !new URL(given).searchParams.has(name));
  const url = missing.reduce((all, { name }) => withParameter(all, encodeURIComponent(name), deliveryId), given);
  const isForm = contentType !== undefined && mediaTypeOf({ 'content-type': contentType }) === URL_ENCODED_FORM;
  if (!hasPart(spec.signs, 'sortedForm') || body.length === 0 || isForm) return url;
  return withParameter(url, BODY_HASH_PARAMETER, createHash('sha256').update(body).digest('hex'));
}

function withParameter(url: string, name: string, value: string): string {
  const bare = withoutFragment(url);
  return `${bare}${bare.includes('?') ? '&' : '?'}${name}=${encodeURIComponent(value)}`;
}

function signedBytes(
  request: SigningRequest,
  body: Buffer,
  { url, headers }: { url: string; headers: Readonly<Record<string, string>> },
): SignedBytes {
  const { spec, deliveryId } = request;
  const timestamp = spec.timestamp && timestampText(request.timestampMs, spec.timestamp.unit);
  const timed = spec.headers.flatMap((family) =>
    family.timestamp && timestamp ? [[family.timestamp, timestamp]] : [],
  );
  const { pathname, search } = new URL(url);
  const delivery = {
    id: deliveryId,
    receivedAt: request.timestampMs,
    method: 'POST',
    path: `${pathname}${search}`,
    requestUrl: url,
    headers: lowerCase({ ...headers, ...Object.fromEntries(timed) }),
    body,
    clientIp: '127.0.0.1',
  };
  const readField = bodyReader(headers, body);
  const payload = signedPayload(spec, { delivery, publicUrl: url, timestamp, deliveryId, readField });
  if (!payload.isComplete) throw new Error(`${spec.name} cannot sign this delivery: ${payload.detail}`);
  return payload.variants[0] ?? [];
}

function signatureText(spec: SignatureSpec, key: SchemeKey, bytes: SignedBytes): string {
  const { algorithm, prefix = '', encoding } = spec;
  // Header lines are written like this: one byte per character.
  if (algorithm === 'token') return key.key.export().toString('latin1');
  if (key.kind === 'ed25519' && algorithm !== 'ed25519') return encodeDigest(sign('ed25519', key, bytes), encoding);
  return `${prefix}${encodeDigest(sign(algorithm, key, bytes), encoding)}`;
}

function sign(algorithm: Exclude<SpecAlgorithm, 'token'>, { key }: SchemeKey, bytes: SignedBytes): Buffer {
  if (!usesKeyPair(algorithm)) return hmac(algorithm, key, bytes);
  return signAsymmetric(KEY_PAIRS[algorithm].hash, Buffer.concat(bytes), key);
}

function signatureLine(
  spec: SignatureSpec,
  key: SchemeKey,
  { signature, timestamp }: { signature: string; timestamp: string },
): string {
  const { multiValue, headerValuePrefix = '' } = spec;
  if (multiValue === undefined) return `${headerValuePrefix}${signature}`;
  const valueKey = (key.kind === 'ed25519' ? spec.ed25519?.valueKey : undefined) ?? multiValue.valueKeys[0];
  const segments: [string, string][] = [[valueKey ?? '', signature]];
  if (spec.timestamp?.in === 'signature') segments.unshift([spec.timestamp.valueKey, timestamp]);
  const { keyValueSeparator, delimiter } = multiValue;
  if (keyValueSeparator === undefined) return `${headerValuePrefix}${inPlaces(segments).join(delimiter)}`;
  const mark = multiValue.isQuoted === true ? '"' : '';
  const line = segments.map(([name, value]) => `${name}${keyValueSeparator}${mark}${value}${mark}`).join(delimiter);
  return `${headerValuePrefix}${line}`;
}

/** Values at the places that their keys name, and an unread placeholder at all others. */
function inPlaces(segments: readonly (readonly [string, string])[]): string[] {
  const length = Math.max(...segments.map(([place]) => Number(place))) + 1;
  return Array.from({ length }, (_, at) => segments.find(([place]) => Number(place) === at)?.[1] ?? '-');
}

/** The body with one field set; if the field has that value already, the bytes stay unchanged. */
function withField(body: Buffer, contentType: string | undefined, insertion: Insertion): Buffer {
  const mediaType = contentType === undefined ? '' : mediaTypeOf({ 'content-type': contentType });
  if (mediaType === URL_ENCODED_FORM) return withFormField(body, insertion);
  if (mediaType === 'multipart/form-data') throw new Error('a multipart body is not signed here: send JSON or a form');
  const json = body.length === 0 ? {} : parseJson(body);
  if (!isObject(json)) throw new Error('the body must be a JSON object or a form: the scheme keeps something in it');
  const { field, text } = insertion;
  const changed = JSON.stringify(setPath(json, field.path, field.isNumber === true ? Number(text) : text));
  return changed === JSON.stringify(json) ? body : Buffer.from(changed);
}

function withFormField(body: Buffer, { field: { formField }, text }: Insertion): Buffer {
  if (formField === undefined) throw new Error('the scheme has no form: send JSON');
  const kept = body
    .toString('latin1')
    .split('&')
    .filter((pair) => pair !== '' && decodeForm(Buffer.from(pair, 'latin1'))?.[0]?.name !== formField);
  return Buffer.from([...kept, `${formField}=${encodeURIComponent(text)}`].join('&'), 'latin1');
}

function setPath(json: Json | undefined, path: readonly string[], value: Json): Json {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  if (name === EACH) return (Array.isArray(json) ? json : [{}]).map((item) => setPath(item, rest, value));
  if (Array.isArray(json) && name === '0') return [setPath(json[0], rest, value)];
  const object = isObject(json) ? json : {};
  return { ...object, [name]: setPath(Object.hasOwn(object, name) ? object[name] : undefined, rest, value) };
}
