import { createHash, timingSafeEqual } from 'node:crypto';
import type { Delivery, Reason } from '../../../model/delivery.ts';
import type { Json, JsonObject } from '../../../model/json.ts';
import type { SignedTimestamp } from '../../gate.ts';
import { displayUrl } from '../signed-payload.ts';
import { decodeExactly, headerOf, jsonObject } from '../values.ts';
import type { Verification } from '../verify.ts';
import type { JwtRule, StandardRequest } from './standard.ts';
import type { VerifyingKey } from './verifying-keys.ts';

/** Algorithms that a kind of key may verify: RFC 7518, section 3.1, and RFC 8037. Confusable kinds never share one. */
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

/** Publishers' tokens have less than 2000 characters. */
const MAX_LENGTH = 8192;
/** A set rarely has more keys of one kind; each try costs the verification of a signature. */
const MAX_TRIED = 8;
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const DETACHED = /^[\w-]+\.\.[\w-]+$/;

/**
 * Verifies a JSON Web Token (RFC 7519) and the body that one of its claims hashes. The token's key id only serves to
 * look up a key: URLs, keys and certificates in the token are not read.
 */
export async function verifyJwt(rule: JwtRule, request: StandardRequest): Promise<Verification> {
  const token = tokenIn(rule, request.delivery);
  if (typeof token !== 'string') return refused(token.reason, token.detail);
  const { alg, kid } = partOf(token, 0);
  const timestamp = timestampOf(rule, token);
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

function tokenIn({ carrier, header, prefix }: JwtRule, { headers, body }: Delivery): string | Refusal {
  // A token in the body has the length limit of bodies.
  const line = carrier === 'body' ? body.toString('latin1') : headerOf(headers, header);
  const place = carrier === 'body' ? 'the body' : `header ${header}`;
  if (line === undefined) return { reason: 'signature_missing', detail: `${place} is absent` };
  const token = withoutPrefix(prefix, line);
  if (token === undefined) return { reason: 'signature_malformed', detail: `${place} does not start with "${prefix}"` };
  if (carrier !== 'body' && token.length > MAX_LENGTH)
    return { reason: 'signature_malformed', detail: `the token has more than ${MAX_LENGTH} bytes` };
  if ((carrier === 'detached' ? DETACHED : COMPACT).test(token)) return token;
  return { reason: 'signature_malformed', detail: NO_TOKEN[carrier] };
}

const NO_TOKEN: Readonly<Record<JwtRule['carrier'], string>> = {
  header: 'it is no signed JSON Web Token',
  body: 'the body is no signed JSON Web Token',
  detached: 'it is no signature without its content (RFC 7797)',
};

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
  // Every key is tried, even after a match.
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
  const { claims } = result;
  const problem = bodyProblem(rule.bodyHashClaim, claims, request.delivery.body) ?? urlProblem(rule, claims, request);
  if (problem !== undefined) return refused(problem.reason, problem.detail, timestamp);
  // Timestamp and body distinguish deliveries, never the token: publishers send a token several times, and others can
  // rewrite it. So for a token in the body only the signed part counts, not how its signature is written.
  const signed = rule.carrier === 'body' ? token.slice(0, token.lastIndexOf('.')) : undefined;
  return {
    isVerified: true,
    usedPreviousKey,
    signedBytesSha256: signed === undefined ? undefined : createHash('sha256').update(signed).digest('hex'),
    verifiedHeaders: undefined,
    timestamp,
  };
}

type Refusal = { readonly reason: Reason; readonly detail: string };

async function verifyWith(
  { key }: VerifyingKey,
  { token, alg, rule, request }: { token: string; alg: string; rule: JwtRule; request: StandardRequest },
): Promise<{ readonly claims: JsonObject } | Refusal | 'other key'> {
  // Loaded for the first token: few services ever get one.
  const { errors, flattenedVerify, jwtVerify } = await import('jose');
  try {
    if (rule.carrier === 'detached') {
      const [header = '', , signature = ''] = token.split('.');
      // Accepted only if the header says that the raw body is signed, not its base64.
      await flattenedVerify({ protected: header, payload: request.delivery.body, signature }, key, {
        algorithms: [alg],
      });
      return { claims: {} };
    }
    const { payload } = await jwtVerify(token, key, {
      algorithms: [alg],
      ...(rule.issuer === undefined ? {} : { issuer: rule.issuer }),
      ...(rule.audience === undefined ? {} : { audience: rule.audience }),
      requiredClaims: [...rule.requiredClaims],
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
  if (reason === 'missing') return { reason: 'signature_mismatch', detail: `the token has no claim "${claim}"` };
  if (reason === 'invalid') {
    return { reason: 'timestamp_malformed', detail: 'a time in the token is not a number of seconds' };
  }
  return { reason: 'timestamp_skew', detail: 'the token is not valid yet' };
}

/** Whether algorithm and key fit, and their ids too if both have one. */
function isFor({ kind, id, algorithm }: VerifyingKey, alg: string, named: Json | undefined): boolean {
  const isNamed = id === undefined || named === undefined || id === named;
  return isNamed && ALGORITHMS[kind].includes(alg) && (algorithm === undefined || algorithm === alg);
}

/** The problem if the claim is not a hash of the body, in any of the usual hashes and encodings. */
function bodyProblem(claim: string | undefined, claims: JsonObject, body: Buffer): Refusal | undefined {
  if (claim === undefined) return undefined;
  const hash = Object.hasOwn(claims, claim) ? claims[claim] : undefined;
  if (typeof hash !== 'string') {
    return { reason: 'signature_malformed', detail: `the token has no claim "${claim}" with a hash of the body` };
  }
  if (isHashOf(hash, [body])) return undefined;
  return { reason: 'signature_mismatch', detail: `the body is not the one whose hash is in the claim "${claim}"` };
}

/** The problem if the claim is not a hash of the URL. */
function urlProblem({ urlHash }: JwtRule, claims: JsonObject, { publicUrl }: StandardRequest): Refusal | undefined {
  if (urlHash === undefined) return undefined;
  const hash = Object.hasOwn(claims, urlHash.claim) ? claims[urlHash.claim] : undefined;
  if (typeof hash === 'string' && isHashOf(hash, urlHash.of === 'url' ? [publicUrl] : requestTexts(publicUrl)))
    return undefined;
  const detail = `the token is for another URL than ${displayUrl(publicUrl)}`;
  return { reason: 'signature_mismatch', detail };
}

/**
 * The texts that an Atlassian app may hash for a request without a query. The app leaves out its own base path, which
 * is not known here, so any end of the path may be right.
 */
function requestTexts(publicUrl: string): string[] {
  const { pathname, search } = new URL(publicUrl);
  const ends = [...pathname.matchAll(/\//g)].map(({ index }) => pathname.slice(index));
  return search === '' ? ends.map((path) => `POST&${path}&`) : [];
}

function isHashOf(text: string, contents: readonly (string | Buffer)[]): boolean {
  const claimed = (['hex', 'base64', 'base64url'] as const).flatMap((encoding) => decodeExactly(text, encoding) ?? []);
  return (['sha256', 'sha384', 'sha512'] as const).some((algorithm) =>
    contents.some((content) => {
      const digest = createHash(algorithm).update(content).digest();
      return claimed.some((bytes) => bytes.length === digest.length && timingSafeEqual(bytes, digest));
    }),
  );
}

function partOf(token: string, index: number): JsonObject {
  return jsonObject(Buffer.from(token.split('.', 2)[index] ?? '', 'base64url'));
}

/** When the token was made. */
function timestampOf({ time }: JwtRule, token: string): SignedTimestamp | undefined {
  const value = partOf(token, time.in === 'header' ? 0 : 1)[time.name];
  if (value === undefined) return undefined;
  return { text: String(value), ms: typeof value === 'number' ? value * 1000 : Number.NaN };
}

function withoutPrefix(prefix: string, line: string): string | undefined {
  return line.slice(0, prefix.length).toLowerCase() === prefix.toLowerCase() ? line.slice(prefix.length) : undefined;
}

function refused(reason: Reason, detail: string, timestamp?: SignedTimestamp): Verification {
  return { isVerified: false, reason, detail, timestamp };
}
