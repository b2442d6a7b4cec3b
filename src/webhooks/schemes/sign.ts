import { createHash, sign as signAsymmetric } from 'node:crypto';
import { decodeForm, URL_ENCODED_FORM } from '../../model/form.ts';
import type { Json } from '../../model/json.ts';
import { GateConfigurationError } from '../gate.ts';
import { readSigningKey, type SchemeKey } from './keys.ts';
import { BODY_HASH_PARAMETER, type SignedBytes, signedPayload, withoutFragment } from './signed-payload.ts';
import type { BodyField, SignatureSpec } from './spec.ts';
import { encodeDigest, isObject, mediaTypeOf, parseJson, timestampText } from './values.ts';
import { hmac } from './verify.ts';

export interface SigningRequest {
  readonly spec: SignatureSpec;
  /** As it would be configured on the trigger; the private key where the scheme has two. */
  readonly key: string;
  readonly body: Buffer;
  /** Absolute, as the receiver knows itself. */
  readonly url: string;
  readonly timestampMs: number;
  readonly deliveryId: string;
  readonly contentType?: string | undefined;
}

/** What is to be sent. Body and URL are the given ones, but where the scheme keeps something in them. */
export interface SignedDelivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly url: string;
}

/** Something written into the body. */
interface Insertion {
  readonly field: BodyField;
  readonly text: string;
}

/**
 * Signs a delivery as the publisher would, from the description that the verifier reads. Throws where the key or the body
 * does not suit the scheme.
 */
export function signDelivery(request: SigningRequest): SignedDelivery {
  const { spec, contentType } = request;
  const unsigned = withSignedFields(request);
  const url = signedUrl(request);
  const key = signingKey(spec, request.key);
  const signature = signatureText(spec, key, signedBytes(request, unsigned, url));
  const family = spec.headers[0];
  const timestamp = timestampText(request.timestampMs, spec.timestamp?.unit ?? 'seconds');
  const headers: Record<string, string> = contentType === undefined ? {} : { 'content-type': contentType };
  if (family?.timestamp !== undefined) headers[family.timestamp] = timestamp;
  if (family?.deliveryId !== undefined) headers[family.deliveryId] = request.deliveryId;
  if (family !== undefined) headers[family.signature] = headerLine(spec, key, { signature, timestamp });
  const signatureField = spec.signatureFields?.[0];
  const body =
    signatureField === undefined
      ? unsigned
      : withField(unsigned, contentType, { field: signatureField, text: signature });
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

/** The body with the timestamp and the token in it, where the scheme keeps them there. */
function withSignedFields(request: SigningRequest): Buffer {
  const { spec, contentType } = request;
  const insertions: Insertion[] = [];
  if (spec.timestamp?.in === 'body') {
    insertions.push({ field: spec.timestamp.field, text: timestampText(request.timestampMs, spec.timestamp.unit) });
  }
  if (spec.payload.token !== undefined) {
    insertions.push({ field: spec.payload.token, text: tokenOf(spec.payload.token, request.deliveryId) });
  }
  return insertions.reduce((body, insertion) => withField(body, contentType, insertion), request.body);
}

function tokenOf({ length }: BodyField, deliveryId: string): string {
  return createHash('sha256').update(deliveryId).digest('hex').slice(0, length);
}

/** A body that is not a form is covered by its hash in the URL alone. */
function signedUrl({ spec, body, url, contentType }: SigningRequest): string {
  const isForm = contentType !== undefined && mediaTypeOf({ 'content-type': contentType }) === URL_ENCODED_FORM;
  if (spec.payload.strategy !== 'UrlPlusSortedForm' || body.length === 0 || isForm) return url;
  const bare = withoutFragment(url);
  const hash = createHash('sha256').update(body).digest('hex');
  return `${bare}${bare.includes('?') ? '&' : '?'}${BODY_HASH_PARAMETER}=${hash}`;
}

function signedBytes(request: SigningRequest, body: Buffer, url: string): SignedBytes {
  const { spec, deliveryId, contentType } = request;
  const timestamp = spec.timestamp && timestampText(request.timestampMs, spec.timestamp.unit);
  const { pathname, search } = new URL(url);
  const headers: Record<string, string> = contentType === undefined ? {} : { 'content-type': contentType };
  const delivery = {
    id: deliveryId,
    receivedAt: request.timestampMs,
    method: 'POST',
    path: `${pathname}${search}`,
    requestUrl: url,
    headers,
    body,
    clientIp: '127.0.0.1',
  };
  const token = spec.payload.token === undefined ? undefined : tokenOf(spec.payload.token, deliveryId);
  const payload = signedPayload(spec, { delivery, publicUrl: url, timestamp, deliveryId, token });
  if (!payload.isComplete) throw new Error(`${spec.name} cannot sign this delivery: ${payload.detail}`);
  return payload.variants[0] ?? [];
}

function signatureText(spec: SignatureSpec, key: SchemeKey, bytes: SignedBytes): string {
  const { algorithm, prefix = '', encoding } = spec;
  if (key.kind === 'ed25519' || algorithm === 'ed25519') return ed25519Text(spec, key, bytes);
  switch (algorithm) {
    case 'token':
      // As header lines are written: each character one byte.
      return key.key.export().toString('latin1');
    case 'ecdsaP256':
    case 'rsaSha256':
      return `${prefix}${encodeDigest(signAsymmetric('sha256', Buffer.concat(bytes), key.key), encoding)}`;
    case 'rsaSha1':
      return `${prefix}${encodeDigest(signAsymmetric('sha1', Buffer.concat(bytes), key.key), encoding)}`;
    default:
      return `${prefix}${encodeDigest(hmac(algorithm, key.key, bytes), encoding)}`;
  }
}

function ed25519Text(spec: SignatureSpec, key: SchemeKey, bytes: SignedBytes): string {
  if (key.kind !== 'ed25519') throw new Error(`${spec.name} signs with a private key`);
  const text = encodeDigest(signAsymmetric(null, Buffer.concat(bytes), key.key), spec.encoding);
  return spec.algorithm === 'ed25519' ? `${spec.prefix ?? ''}${text}` : text;
}

function headerLine(
  spec: SignatureSpec,
  key: SchemeKey,
  { signature, timestamp }: { signature: string; timestamp: string },
): string {
  const { multiValue, headerValuePrefix = '' } = spec;
  if (multiValue === undefined) return `${headerValuePrefix}${signature}`;
  const valueKey = key.kind === 'ed25519' ? spec.ed25519?.valueKey : multiValue.valueKeys[0];
  const segments: [string | undefined, string][] = [[valueKey, signature]];
  if (spec.timestamp?.in === 'signature') segments.unshift([spec.timestamp.valueKey, timestamp]);
  const line = segments.map((segment) => segment.join(multiValue.keyValueSeparator)).join(multiValue.delimiter);
  return `${headerValuePrefix}${line}`;
}

/** The body with one field set; untouched where the field holds that value already, so that its bytes stay. */
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
  if (Array.isArray(json) && name === '0') return [setPath(json[0], rest, value)];
  const object = isObject(json) ? json : {};
  return { ...object, [name]: setPath(Object.hasOwn(object, name) ? object[name] : undefined, rest, value) };
}
