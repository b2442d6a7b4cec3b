import { createHash, timingSafeEqual } from 'node:crypto';
import type { Reason } from '../../../model/delivery.ts';
import type { Json, JsonObject } from '../../../model/json.ts';
import type { SignedTimestamp } from '../../gate.ts';
import { decodeExactly, headerOf, jsonObject } from '../values.ts';
import type { Verification } from '../verify.ts';
import type { JwtRule, StandardRequest } from './standard.ts';
import type { VerifyingKey } from './verifying-keys.ts';

/** Which algorithms a key may verify: RFC 7518, section 3.1, and RFC 8037. Never more than one kind of key for one of them. */
const ALGORITHMS: Readonly<Record<VerifyingKey['kind'], readonly string[]>> = {
  secret: ['HS256', 'HS384', 'HS512'],
  rsa: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  rsaPss: ['PS256', 'PS384', 'PS512'],
  p256: ['ES256'],
  p384: ['ES384'],
  p521: ['ES512'],
  ed25519: ['EdDSA', 'Ed25519'],
};
const KNOWN_ALGORITHMS: ReadonlySet<string> = new Set(Object.values(ALGORITHMS).flat());

/** Those of publishers have less than 2000 characters. */
const MAX_LENGTH = 8192;
/** A set rarely has more keys of one kind; each that is tried costs the verification of a signature. */
const MAX_TRIED = 8;
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * Verifies a JSON Web Token (RFC 7519) and the body that one of its claims hashes. What the token says of keys is a name to
 * look up, nothing else: URLs, keys and certificates in it are not read.
 */
export async function verifyJwt(rule: JwtRule, request: StandardRequest): Promise<Verification> {
  const line = headerOf(request.delivery.headers, rule.header);
  if (line === undefined) return refused('signature_missing', `header ${rule.header} is absent`);
  const token = withoutPrefix(rule.prefix, line);
  if (token === undefined) {
    return refused('signature_malformed', `header ${rule.header} does not start with "${rule.prefix}"`);
  }
  if (token.length > MAX_LENGTH) return refused('signature_malformed', `the token has more than ${MAX_LENGTH} bytes`);
  if (!COMPACT.test(token)) return refused('signature_malformed', 'it is no signed JSON Web Token');
  const { alg, kid } = partOf(token, 0);
  const timestamp = timestampOf(partOf(token, 1));
  if (typeof alg !== 'string' || !KNOWN_ALGORITHMS.has(alg)) {
    const detail = typeof alg === 'string' && /^[\w-]{1,20}$/.test(alg) ? `the algorithm ${alg}` : 'its algorithm';
    return refused('signature_malformed', `${detail} is not accepted`, timestamp);
  }
  const keys = await request.keysFor(typeof kid === 'string' ? kid : undefined);
  const [current, previous] = [keys.current, keys.previous].map((some) => some.filter((key) => isFor(key, alg, kid)));
  if (current?.length === 0 && previous?.length === 0) {
    const named = keys.current.concat(keys.previous).some((key) => isFor(key, alg, key.id));
    const detail = named ? 'no key has the id that the token names' : `no key verifies the algorithm ${alg}`;
    return refused('signature_mismatch', detail, timestamp);
  }
  return judge(token, { alg, current: current ?? [], previous: previous ?? [], timestamp, rule, request });
}

interface Question {
  readonly alg: string;
  readonly current: readonly VerifyingKey[];
  readonly previous: readonly VerifyingKey[];
  readonly timestamp: SignedTimestamp | undefined;
  readonly rule: JwtRule;
  readonly request: StandardRequest;
}

async function judge(
  token: string,
  { alg, current, previous, timestamp, rule, request }: Question,
): Promise<Verification> {
  // Every key is tried, whatever an earlier one said.
  const results = await Promise.all(
    [...current.slice(0, MAX_TRIED), ...previous.slice(0, MAX_TRIED)].map(async (key) => ({
      usedPreviousKey: !current.includes(key),
      result: await verifyWith(key, { token, alg, rule, request }),
    })),
  );
  const found = results.find(({ result }) => result !== 'other key');
  if (found === undefined || found.result === 'other key') {
    return refused('signature_mismatch', 'no configured key matches the signature', timestamp);
  }
  const { result, usedPreviousKey } = found;
  if ('reason' in result) return refused(result.reason, result.detail, timestamp);
  const problem = bodyProblem(rule.bodyHashClaim, result.claims, request.delivery.body);
  if (problem !== undefined) return refused(problem.reason, problem.detail, timestamp);
  // Timestamp and body tell deliveries apart, never the token: publishers send one several times, and others can write one anew.
  return {
    isVerified: true,
    usedPreviousKey,
    signedBytesSha256: undefined,
    verifiedHeaders: undefined,
    timestamp: timestampOf(result.claims),
  };
}

type Refusal = { readonly reason: Reason; readonly detail: string };

async function verifyWith(
  { key }: VerifyingKey,
  { token, alg, rule, request }: { token: string; alg: string; rule: JwtRule; request: StandardRequest },
): Promise<{ readonly claims: JsonObject } | Refusal | 'other key'> {
  // Loaded for the first token: few services ever get one.
  const { errors, jwtVerify } = await import('jose');
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [alg],
      ...(rule.issuer === undefined ? {} : { issuer: rule.issuer }),
      ...(rule.audience === undefined ? {} : { audience: rule.audience }),
      currentDate: new Date(request.delivery.receivedAt),
      clockTolerance: request.leewaySeconds,
    });
    return { claims: payload as JsonObject };
  } catch (error) {
    if (error instanceof errors.JWSSignatureVerificationFailed) return 'other key';
    if (error instanceof errors.JWTExpired) return { reason: 'timestamp_skew', detail: 'the token has expired' };
    if (error instanceof errors.JWTClaimValidationFailed) return claimProblem(error);
    if (error instanceof errors.JOSENotSupported) {
      return { reason: 'signature_malformed', detail: 'the token asks for an extension that is not known' };
    }
    if (error instanceof errors.JWSInvalid || error instanceof errors.JWTInvalid) {
      return { reason: 'signature_malformed', detail: 'it is no signed JSON Web Token' };
    }
    throw error;
  }
}

const NAMES: Readonly<Record<string, string>> = { iss: 'issuer', aud: 'audience' };

function claimProblem({ claim, reason }: { readonly claim: string; readonly reason: string }): Refusal {
  const name = NAMES[claim];
  if (name !== undefined) {
    const what = reason === 'missing' ? `has no ${name}` : `is for another ${name}`;
    return { reason: 'signature_mismatch', detail: `the token ${what}` };
  }
  if (reason === 'invalid') {
    return { reason: 'timestamp_malformed', detail: 'a time in the token is not a number of seconds' };
  }
  return { reason: 'timestamp_skew', detail: 'the token is not valid yet' };
}

/** Of the key's kind, and of its name where both have one. */
function isFor({ kind, id, algorithm }: VerifyingKey, alg: string, named: Json | undefined): boolean {
  const isNamed = id === undefined || named === undefined || id === named;
  return isNamed && ALGORITHMS[kind].includes(alg) && (algorithm === undefined || algorithm === alg);
}

/** A body that is not the one that the claim hashes, whichever of the usual hashes and encodings it is in. */
function bodyProblem(claim: string | undefined, claims: JsonObject, body: Buffer): Refusal | undefined {
  if (claim === undefined) return undefined;
  const hash = Object.hasOwn(claims, claim) ? claims[claim] : undefined;
  if (typeof hash !== 'string') {
    return { reason: 'signature_malformed', detail: `the token has no claim "${claim}" with a hash of the body` };
  }
  if (isHashOf(hash, body)) return undefined;
  return { reason: 'signature_mismatch', detail: `the body is not the one whose hash is in the claim "${claim}"` };
}

function isHashOf(text: string, body: Buffer): boolean {
  const claimed = (['hex', 'base64', 'base64url'] as const).flatMap((encoding) => decodeExactly(text, encoding) ?? []);
  return (['sha256', 'sha384', 'sha512'] as const).some((algorithm) => {
    const digest = createHash(algorithm).update(body).digest();
    return claimed.some((bytes) => bytes.length === digest.length && timingSafeEqual(bytes, digest));
  });
}

function partOf(token: string, index: number): JsonObject {
  return jsonObject(Buffer.from(token.split('.', 2)[index] ?? '', 'base64url'));
}

/** When the token was made. */
function timestampOf({ iat }: JsonObject): SignedTimestamp | undefined {
  if (iat === undefined) return undefined;
  return { text: String(iat), ms: typeof iat === 'number' ? iat * 1000 : Number.NaN };
}

function withoutPrefix(prefix: string, line: string): string | undefined {
  return line.slice(0, prefix.length).toLowerCase() === prefix.toLowerCase() ? line.slice(prefix.length) : undefined;
}

function refused(reason: Reason, detail: string, timestamp?: SignedTimestamp): Verification {
  return { isVerified: false, reason, detail, timestamp };
}
