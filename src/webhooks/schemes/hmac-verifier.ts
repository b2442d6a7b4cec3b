import { createHash, createHmac, timingSafeEqual, verify as verifyAsymmetric } from 'node:crypto';
import type { Delivery, Reason } from '../../model/delivery.ts';
import type { SignatureAlgorithm } from '../../model/manifest.ts';
import type { SignedTimestamp } from '../gate.ts';
import { signsUrl } from './coverage.ts';
import { DIGEST_BYTES, decodeDigest } from './digest.ts';
import { type CandidateText, type Extraction, extract } from './extract.ts';
import type { SchemeKey } from './keys.ts';
import { type SignedBytes, signedPayload } from './signed-payload.ts';
import { displayUrl } from './signed-url.ts';
import type { PrefixedAlgorithm, SignatureSpec, SpecAlgorithm } from './spec.ts';

/** What a spec and its keys say about one delivery. The timestamp is given whenever it is there, verified or not. */
export type Verification = {
  readonly timestamp: SignedTimestamp | undefined;
} & (
  | {
      readonly isVerified: true;
      readonly usedPreviousKey: boolean;
      /** Hex SHA-256 of the signed bytes, where they are not the raw body between certain boundaries. */
      readonly signedBytesSha256: string | undefined;
      readonly verifiedHeaders: ReadonlyMap<string, string> | undefined;
    }
  | { readonly isVerified: false; readonly reason: Reason; readonly detail: string }
);

export interface KeyPair {
  readonly current: SchemeKey;
  readonly previous: SchemeKey | undefined;
}

/** A candidate in bytes, as long as its algorithm's signatures are. */
interface Candidate {
  readonly algorithm: SpecAlgorithm;
  readonly bytes: Buffer;
}

interface VerifiedRequest {
  readonly delivery: Delivery;
  readonly publicUrl: string;
  /** The end of the URL that the request chose. */
  readonly sentQuery?: string | undefined;
}

/** Verifies a delivery as the spec describes. Throws only what a payload builder of the operator's throws. */
export function verifyWithSpec(spec: SignatureSpec, keys: KeyPair, request: VerifiedRequest): Verification {
  const extraction = extract(spec, request.delivery);
  const { timestamp, signature } = extraction;
  if (signature.kind !== 'found') {
    const reason = signature.kind === 'missing' ? 'signature_missing' : 'signature_malformed';
    return { isVerified: false, reason, detail: signature.detail, timestamp };
  }
  const candidates = signature.texts.map((text) => decodeCandidate(spec, text)).filter((it) => it !== undefined);
  if (candidates.length === 0) {
    return { isVerified: false, reason: 'signature_malformed', detail: `no signature is ${formOf(spec)}`, timestamp };
  }
  const payload = signedPayload(spec, payloadInput(extraction, request));
  if (!payload.isComplete) {
    return { isVerified: false, reason: payload.reason, detail: payload.detail, timestamp };
  }
  // Both keys are compared to the end, whatever the first one says.
  const current = firstMatch(keys.current, candidates, payload.variants);
  const previous = keys.previous === undefined ? undefined : firstMatch(keys.previous, candidates, payload.variants);
  const signedBytes = current ?? previous;
  if (signedBytes === undefined) {
    return { isVerified: false, reason: 'signature_mismatch', detail: mismatchOf(spec, request.publicUrl), timestamp };
  }
  return {
    isVerified: true,
    usedPreviousKey: current === undefined,
    signedBytesSha256: signsRawBody(spec) ? undefined : sha256(signedBytes),
    verifiedHeaders: extraction.familyHeaders,
    timestamp,
  };
}

/** Whether the signed bytes are the body as it came, alone or behind parts whose ends are certain. */
function signsRawBody({ payload: { strategy } }: SignatureSpec): boolean {
  return strategy === 'RawBody' || strategy === 'TimestampDotBody' || strategy === 'ColonDelimited';
}

/** The digests that the spec accepts; the first is what the publisher sends today. */
export function acceptedDigests(spec: SignatureSpec): readonly PrefixedAlgorithm[] {
  return [{ algorithm: spec.algorithm, prefix: spec.prefix ?? '' }, ...(spec.alternatives ?? [])];
}

function payloadInput(
  { timestamp, deliveryId, token }: Extraction,
  { delivery, publicUrl, sentQuery }: VerifiedRequest,
) {
  return { delivery, publicUrl, sentQuery, timestamp: timestamp?.text, deliveryId, token };
}

function decodeCandidate(spec: SignatureSpec, { text, isEd25519 }: CandidateText): Candidate | undefined {
  if (isEd25519) {
    const bytes = decodeDigest(text, spec.encoding, DIGEST_BYTES.ed25519);
    return bytes === undefined ? undefined : { algorithm: 'ed25519', bytes };
  }
  // The publisher's word for the algorithm is taken from the spec's own list only: no header can ask for a weaker one.
  for (const { algorithm, prefix } of acceptedDigests(spec)) {
    const isPrefixed = text.startsWith(prefix);
    if (!isPrefixed && spec.isPrefixOptional !== true) continue;
    const bytes = decodeDigest(isPrefixed ? text.slice(prefix.length) : text, spec.encoding, DIGEST_BYTES[algorithm]);
    if (bytes !== undefined) return { algorithm, bytes };
  }
  return undefined;
}

/** The bytes that a candidate signs; every candidate is compared with every variant, whatever matched before. */
function firstMatch(
  key: SchemeKey,
  candidates: readonly Candidate[],
  variants: readonly SignedBytes[],
): SignedBytes | undefined {
  let match: SignedBytes | undefined;
  for (const signedBytes of variants) {
    const digests = new Map<SignatureAlgorithm, Buffer>();
    for (const candidate of candidates) {
      if (matches(key, candidate, { signedBytes, digests })) match ??= signedBytes;
    }
  }
  return match;
}

function matches(
  key: SchemeKey,
  candidate: Candidate,
  { signedBytes, digests }: { signedBytes: SignedBytes; digests: Map<SignatureAlgorithm, Buffer> },
): boolean {
  const { algorithm, bytes } = candidate;
  if (key.kind === 'ed25519') {
    return algorithm === 'ed25519' && verifyAsymmetric(null, Buffer.concat(signedBytes), key.key, bytes);
  }
  if (algorithm === 'ed25519') return false;
  const digest = digests.get(algorithm) ?? hmac(algorithm, key.bytes, signedBytes);
  digests.set(algorithm, digest);
  return timingSafeEqual(digest, bytes);
}

export function hmac(algorithm: SignatureAlgorithm, key: Buffer, signedBytes: SignedBytes): Buffer {
  const digest = createHmac(algorithm, key);
  for (const part of signedBytes) digest.update(part);
  return digest.digest();
}

function sha256(signedBytes: SignedBytes): string {
  const digest = createHash('sha256');
  for (const part of signedBytes) digest.update(part);
  return digest.digest('hex');
}

function formOf(spec: SignatureSpec): string {
  const digests = acceptedDigests(spec).map(
    ({ algorithm, prefix }) => `${prefix === '' ? '' : `"${prefix}" and `}${DIGEST_BYTES[algorithm]} bytes`,
  );
  return `${digests.join(', or ')} in ${spec.encoding}`;
}

function mismatchOf(spec: SignatureSpec, publicUrl: string): string {
  const over = signsUrl(spec) ? ` over the URL ${displayUrl(publicUrl)}` : '';
  return `no signature${over} matches a configured key`;
}
