import { createHash, timingSafeEqual } from 'node:crypto';
import type { Reason } from '../../model/delivery.ts';
import { asInert } from '../../model/inert-content.ts';

/** A request by which a publisher tests an endpoint. It is answered, not accepted: no run starts, no nonce is used. */
export interface Handshake {
  /** The publisher's own name for it. */
  readonly name: string;
  readonly method: 'GET' | 'HEAD' | 'OPTIONS' | 'POST';
  /** The publisher signs it, so it is answered only after its signature verified, in every enforcement mode. */
  readonly needsVerification: boolean;
  /** Whether it is answered only if the sender knows the trigger's verify token. */
  readonly needsVerifyToken?: boolean | undefined;
  /** Whether a failed handshake is answered without a body. */
  readonly failsEmpty?: boolean | undefined;
  /** Whether the request is this handshake, signed or not; if so, it is never accepted as a delivery. */
  recognises(request: HandshakeRequest): boolean;
  /**
   * The key that the publisher hands over with it, for triggers that configure none; undefined if the request has no
   * valid key. The handshake is answered only if this becomes or is the trigger's key.
   */
  offeredKey?(request: HandshakeRequest): string | undefined;
  /**
   * The URL that completes it, for a publisher that wants a URL to be called; undefined if the request has no URL of
   * the publisher's own. It is called before the answer, and if the call fails, the handshake is refused.
   */
  visits?(request: HandshakeRequest): string | undefined;
  /** Asked first: why the request is not answered, if the verdict of the signature gate does not say it. */
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
  /** The trigger's keys, configured or learned. */
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
  /** The trigger's own token, which the publisher was given too. */
  readonly verifyToken?: string | undefined;
  /** The URL that the publisher was given, without the publisher's additions to the query. */
  readonly publicUrl?: string | undefined;
}

/** The answer to a handshake that fails, in every mode. */
export interface HandshakeRefusal {
  readonly statusCode: number;
  readonly reason: Reason;
  /** For the sender, instead of the reason's message about deliveries. */
  readonly message?: string | undefined;
  /** For people to read; never a secret. */
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

/** A request that is a handshake, and its answer; undefined if it must not be answered. */
export interface RecognisedHandshake {
  readonly name: string;
  readonly answer: HandshakeAnswer | undefined;
  readonly failsEmpty?: boolean | undefined;
  readonly refusal?: HandshakeRefusal | undefined;
  /** Present if the handshake hands over a key; `key` is undefined if this request has no valid one. */
  readonly offer?: { readonly key: string | undefined } | undefined;
  /** Present if a URL must be called; `url` is undefined if this request has none that may be called. */
  readonly visit?: { readonly url: string | undefined } | undefined;
}

/** The first handshake that recognises the request. Enforces verification of the request if the handshake needs it. */
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
    // The answer may repeat what was sent, and operators write handshakes too.
    const answer = given && asInert(given);
    if (handshake.visits !== undefined) return { name, answer, visit: { url: handshake.visits(request) } };
    return handshake.offeredKey === undefined
      ? { name, answer }
      : { name, answer, offer: { key: handshake.offeredKey(request) } };
  } catch {
    // Operator code failed: refuse and record it like any handshake that must not be answered.
    return { name, answer: undefined };
  }
}

/** The handshake that recognises the request, answered or not. */
export function findHandshake(handshakes: readonly Handshake[], request: HandshakeRequest): Handshake | undefined {
  return handshakes.find((handshake) => handshake.method === request.method && recognises(handshake, request));
}

/** If operator code fails, the request counts as a delivery like any other, which the gates judge. */
function recognises(handshake: Handshake, request: HandshakeRequest): boolean {
  try {
    return handshake.recognises(request);
  } catch {
    return false;
  }
}

/** Compares in a time that reveals nothing, not even the length. */
export function isSameSecret(given: string, secret: string): boolean {
  return timingSafeEqual(sha256(given), sha256(secret));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
