import { createHash } from 'node:crypto';
import type { Delivery } from '../../model/delivery.ts';
import type { JsonObject } from '../../model/json.ts';
import type { SignatureAlgorithm, SignatureEncoding } from '../../model/manifest.ts';
import { signsUrl } from './coverage.ts';
import { extract } from './extract.ts';
import { verifyWithSpec } from './hmac-verifier.ts';
import { readVerificationKey, type SchemeKey } from './keys.ts';
import { bodyVariants, keyVariants, urlVariants } from './mistake-variants.ts';
import { BUILT_IN_SCHEMES } from './publishers/index.ts';
import { signedPayload } from './signed-payload.ts';
import type { SignatureSpec } from './spec.ts';

/** A delivery whose signature did not verify, and what it was verified with. */
export interface SignatureQuestion {
  readonly spec: SignatureSpec;
  /** As configured. */
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
  readonly delivery: Delivery;
  readonly publicUrl: string;
}

const ENCODINGS: readonly SignatureEncoding[] = ['hexLower', 'base64', 'base64Url'];
const ALGORITHMS: readonly SignatureAlgorithm[] = ['sha1', 'sha256', 'sha384', 'sha512'];

// Some forty digests are tried in one go; of a larger body they would hold up everything else.
const MAX_BODY_BYTES = 1_048_576;

/**
 * What one known mistake would explain the failure: each sentence says what verifies. For the operator's eyes alone, and
 * it names no key and no digest.
 */
export function findMistakes(question: SignatureQuestion): string[] {
  if (question.delivery.body.byteLength > MAX_BODY_BYTES) return ['the body is too large to try known mistakes on it'];
  const right = rightAsItIs(question);
  if (right.length > 0) return right;
  return [
    ...wrongKey(question),
    ...changedBody(question),
    ...wrongUrl(question),
    ...wrongForm(question),
    ...otherScheme(question),
  ];
}

/** What the signature is made over and where it stands, without any key. */
export function describeSignature({ spec, delivery, publicUrl }: Omit<SignatureQuestion, 'keys'>): JsonObject {
  const { signature, timestamp, deliveryId, token } = extract(spec, delivery);
  const input = { delivery, publicUrl, timestamp: timestamp?.text, deliveryId, token };
  const payload = signedPayload(spec, input);
  const found = {
    layout: spec.payload.strategy,
    algorithm: spec.algorithm,
    encoding: spec.encoding,
    headers: spec.headers.map((family) => family.signature),
    candidates: signature.kind === 'found' ? signature.texts.length : 0,
  };
  if (!payload.isComplete) return { ...found, signedBytes: null, problem: payload.detail };
  const bytes = Buffer.concat([...(payload.variants[0] ?? [])]);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { ...found, signedBytes: { length: bytes.byteLength, sha256 } };
}

function rightAsItIs(question: SignatureQuestion): string[] {
  const { current, previous } = question.keys;
  const isRight = (key: string | undefined) => verifies({ ...question, keys: { current: key, previous: undefined } });
  if (isRight(current)) return ['the signature verifies as it is'];
  if (!isRight(previous)) return [];
  return [
    `would verify with the previous key${current === undefined ? ', which counts only beside a current one' : ''}`,
  ];
}

function wrongKey({ keys, ...question }: SignatureQuestion): string[] {
  return [
    ...keyVariants(question.spec, keys.current).map(([how, key]) => ({ how: `the key ${how}`, key })),
    ...keyVariants(question.spec, keys.previous).map(([how, key]) => ({ how: `the previous key ${how}`, key })),
  ]
    .filter(({ key }) => verifiesWith(question, key))
    .map(({ how }) => `would verify with ${how}`);
}

function changedBody(question: SignatureQuestion): string[] {
  const { delivery } = question;
  return bodyVariants(delivery.body)
    .filter(([, body]) => verifies({ ...question, delivery: { ...delivery, body } }))
    .map(([how]) => how);
}

function wrongUrl(question: SignatureQuestion): string[] {
  if (!signsUrl(question.spec)) return [];
  return urlVariants(question.publicUrl)
    .filter(([, publicUrl]) => verifies({ ...question, publicUrl }))
    .map(([how]) => `would verify if the URL ${how}`);
}

function wrongForm(question: SignatureQuestion): string[] {
  const { spec } = question;
  const forms: [string, SignatureSpec][] = [
    ...ENCODINGS.filter((encoding) => encoding !== spec.encoding.replace('Upper', 'Lower')).map(
      (encoding): [string, SignatureSpec] => [`with the signature read as ${encoding}`, { ...spec, encoding }],
    ),
    ...ALGORITHMS.filter((algorithm) => algorithm !== spec.algorithm).map((algorithm): [string, SignatureSpec] => [
      `with the algorithm ${algorithm}`,
      { ...spec, algorithm },
    ]),
    ['without the prefix of the signature', { ...spec, prefix: undefined }],
    ...['sha256=', 'sha1=', 'sha512=', 'v1=', 'v0='].map((prefix): [string, SignatureSpec] => [
      `with the prefix "${prefix}" of the signature`,
      { ...spec, prefix },
    ]),
  ];
  return forms.filter(([, form]) => verifies({ ...question, spec: form })).map(([how]) => `would verify ${how}`);
}

function otherScheme(question: SignatureQuestion): string[] {
  return BUILT_IN_SCHEMES.filter(({ name }) => name !== question.spec.name)
    .filter((spec) => verifies({ ...question, spec }))
    .map(({ name }) => `would verify under the scheme ${name}`);
}

function verifies({ keys, ...question }: SignatureQuestion): boolean {
  return [keys.current, keys.previous].some((text) => {
    const key = text === undefined ? undefined : readKey(question.spec, text);
    return key !== undefined && verifiesWith(question, key);
  });
}

function verifiesWith({ spec, delivery, publicUrl }: Omit<SignatureQuestion, 'keys'>, key: SchemeKey): boolean {
  try {
    return verifyWithSpec(spec, { current: key, previous: undefined }, { delivery, publicUrl }).isVerified;
  } catch {
    // A payload builder of the operator's could not build these bytes: then they are not what was signed.
    return false;
  }
}

function readKey(spec: SignatureSpec, text: string): SchemeKey | undefined {
  try {
    return readVerificationKey(spec, text, 'key');
  } catch {
    // A key that the scheme cannot read verifies nothing.
    return undefined;
  }
}
