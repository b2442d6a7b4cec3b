import { createHash, timingSafeEqual } from 'node:crypto';
import type { Reason } from '../../model/delivery.ts';
import { asInert } from '../../model/inert-content.ts';

/**
 * A request by which a publisher tests an endpoint. It is answered instead of being accepted: it starts no run and uses
 * no nonce.
 */
export interface Handshake {
  /** The publisher's own name for it. */
  readonly name: string;
  readonly method: 'GET' | 'HEAD' | 'OPTIONS' | 'POST';
  /** The publisher signs it: it is answered only after its signature verified, whatever the enforcement mode. */
  readonly needsVerification: boolean;
  /** Whether it is answered only to who knows the trigger's verify token. */
  readonly needsVerifyToken?: boolean | undefined;
  /** One that fails is answered without a body. */
  readonly failsEmpty?: boolean | undefined;
  /** Whether the request is this handshake, signed or not: then it is never taken as a delivery. */
  recognises(request: HandshakeRequest): boolean;
  /**
   * The key that the publisher hands over with it, for triggers that configure none; undefined where the request brings
   * none in form. It is answered only when that key is the trigger's.
   */
  offeredKey?(request: HandshakeRequest): string | undefined;
  /**
   * The URL that completes it, for a publisher that wants one to be called; undefined where it brings none of the publisher's own.
   * It is called before the answer, and the handshake is refused where that fails.
   */
  visits?(request: HandshakeRequest): string | undefined;
  /** Asked first: why this one is not answered, where the verdict of the signature gate does not say it. */
  refuse?(request: HandshakeRequest): HandshakeRefusal | undefined;
  /** Called only for requests that it recognises; yields undefined if a request must not be answered. */
  answer(request: HandshakeRequest): HandshakeAnswer | undefined;
}

export interface HandshakeRequest {
  readonly method: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly body: Buffer;
  /** Whether the signature gate verified this very request. */
  readonly isVerified: boolean;
  readonly usedPreviousKey?: boolean | undefined;
  /** The trigger's keys, configured or learnt. */
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
  /** The trigger's own, which the publisher was given too. */
  readonly verifyToken?: string | undefined;
  /** The URL that the publisher was given: without what it added to the query. */
  readonly publicUrl?: string | undefined;
}

/** The answer to a handshake that fails, in every mode. */
export interface HandshakeRefusal {
  readonly statusCode: number;
  readonly reason: Reason;
  /** For who asked, in place of what the reason says of deliveries. */
  readonly message?: string | undefined;
  /** For a person; never a secret. */
  readonly detail: string;
}

interface HandshakeAnswer extends AcceptedResponse {
  readonly statusCode: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface AcceptedResponse {
  readonly contentType: string;
  readonly body: string;
}

/** A request that is a handshake, and its answer; undefined where it must not be answered. */
export interface RecognisedHandshake {
  readonly name: string;
  readonly answer: HandshakeAnswer | undefined;
  readonly failsEmpty?: boolean | undefined;
  readonly refusal?: HandshakeRefusal | undefined;
  /** Present where the handshake hands a key over; undefined in it where this one brings none in form. */
  readonly offer?: { readonly key: string | undefined } | undefined;
  /** Present where a URL has to be called; undefined in it where this one brings none that may be. */
  readonly visit?: { readonly url: string | undefined } | undefined;
}

/** The first handshake that the request is. Whether it needs a verified request is enforced here. */
export function recogniseHandshake(
  handshakes: readonly Handshake[],
  request: HandshakeRequest,
): RecognisedHandshake | undefined {
  const handshake = findHandshake(handshakes, request);
  if (handshake === undefined) return undefined;
  const { name } = handshake;
  const { failsEmpty } = handshake;
  if (handshake.needsVerification && !request.isVerified) return { name, answer: undefined, failsEmpty };
  try {
    const refusal = handshake.refuse?.(request);
    if (refusal !== undefined) return { name, answer: undefined, refusal };
    const given = handshake.answer(request);
    // It may repeat what was sent, and operators write handshakes too.
    const answer = given && asInert(given);
    if (handshake.visits !== undefined) return { name, answer, visit: { url: handshake.visits(request) } };
    return handshake.offeredKey === undefined
      ? { name, answer }
      : { name, answer, offer: { key: handshake.offeredKey(request) } };
  } catch {
    // An operator's code failed. It is refused like any handshake that must not be answered, and so recorded.
    return { name, answer: undefined };
  }
}

/** The handshake that the request is, answered or not. */
export function findHandshake(handshakes: readonly Handshake[], request: HandshakeRequest): Handshake | undefined {
  return handshakes.find((handshake) => handshake.method === request.method && recognises(handshake, request));
}

/** What an operator's code fails to recognise is a delivery like any other, which the gates judge. */
function recognises(handshake: Handshake, request: HandshakeRequest): boolean {
  try {
    return handshake.recognises(request);
  } catch {
    return false;
  }
}

/** Compares in a time that tells nothing, not even the length. */
export function isSameSecret(given: string, secret: string): boolean {
  return timingSafeEqual(sha256(given), sha256(secret));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
