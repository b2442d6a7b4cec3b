/**
 * A request by which a publisher tests an endpoint. It is answered instead of being accepted: it starts no run and uses
 * no nonce.
 */
export interface Handshake {
  /** The publisher's own name for it. */
  readonly name: string;
  readonly method: 'GET' | 'POST';
  /** The publisher signs it: it is answered only after its signature verified, whatever the enforcement mode. */
  readonly needsVerification: boolean;
  /** Whether the request is this handshake, signed or not: then it is never taken as a delivery. */
  recognises(request: HandshakeRequest): boolean;
  /** Asked only for what it recognises; yields undefined where that must not be answered. */
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
  /** The trigger's keys, as configured. */
  readonly keys: { readonly current: string | undefined; readonly previous: string | undefined };
}

export interface HandshakeAnswer extends AcceptedResponse {
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
}

/** The first handshake that the request is. Whether it needs a verified request is enforced here. */
export function recogniseHandshake(
  handshakes: readonly Handshake[],
  request: HandshakeRequest,
): RecognisedHandshake | undefined {
  const handshake = handshakes.find(({ method, recognises }) => method === request.method && recognises(request));
  if (handshake === undefined) return undefined;
  const isAllowed = !handshake.needsVerification || request.isVerified;
  return { name: handshake.name, answer: isAllowed ? handshake.answer(request) : undefined };
}
