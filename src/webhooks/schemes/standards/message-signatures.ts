import { constants, createHash, createHmac, timingSafeEqual, verify } from 'node:crypto';
import type { BareItem, InnerList, Item, Parameters } from 'structured-headers';
import type { Reason } from '../../../model/delivery.ts';
import type { SignedTimestamp } from '../../gate.ts';
import { headerOf } from '../values.ts';
import type { Verification } from '../verify.ts';
import {
  type BaseInput,
  type Component,
  ComponentError,
  type Fields,
  linesOf,
  signatureBase,
} from './message-components.ts';
import type { MessageRule, StandardRequest } from './standard.ts';
import type { VerifyingKey } from './verifying-keys.ts';

/** How the algorithms of RFC 9421, section 3.3, verify; two kinds of keys that could be confused never share one. */
const ALGORITHMS: Readonly<Record<string, (key: VerifyingKey, base: Buffer, signature: Buffer) => boolean>> = {
  'hmac-sha256': ({ key }, base, signature) => {
    const digest = createHmac('sha256', key).update(base).digest();
    return signature.length === digest.length && timingSafeEqual(signature, digest);
  },
  ed25519: ({ key }, base, signature) => verify(null, base, key, signature),
  'ecdsa-p256-sha256': ({ key }, base, signature) =>
    verify('sha256', base, { key, dsaEncoding: 'ieee-p1363' }, signature),
  'ecdsa-p384-sha384': ({ key }, base, signature) =>
    verify('sha384', base, { key, dsaEncoding: 'ieee-p1363' }, signature),
  'rsa-pss-sha512': ({ key }, base, signature) =>
    verify('sha512', base, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 64 }, signature),
  'rsa-v1_5-sha256': ({ key }, base, signature) => verify('sha256', base, key, signature),
};

const OF_KIND: Readonly<Record<VerifyingKey['kind'], readonly string[]>> = {
  secret: ['hmac-sha256'],
  ed25519: ['ed25519'],
  p256: ['ecdsa-p256-sha256'],
  p384: ['ecdsa-p384-sha384'],
  p521: [],
  rsa: ['rsa-pss-sha512', 'rsa-v1_5-sha256'],
  rsaPss: ['rsa-pss-sha512'],
};

/** The names of these algorithms in JSON Web Keys. */
const NAMES_OF_JWK: Readonly<Record<string, string>> = {
  EdDSA: 'ed25519',
  Ed25519: 'ed25519',
  ES256: 'ecdsa-p256-sha256',
  ES384: 'ecdsa-p384-sha384',
  PS512: 'rsa-pss-sha512',
  RS256: 'rsa-v1_5-sha256',
};

// Limits the cost of messages from strangers. A message has one or two signatures, each of a handful of components.
const MAX_LENGTH = 8192;
const MAX_SIGNATURES = 4;
const MAX_COMPONENTS = 64;
const MAX_TRIED = 8;

type Refusal = Extract<Verification, { isVerified: false }>;

/** Verifies a signature of RFC 9421 that covers what the trigger asks for, and the body by its digest of RFC 9530. */
export async function verifyMessage(rule: MessageRule, request: StandardRequest): Promise<Verification> {
  const { headers } = request.delivery;
  const [input, signature] = ['Signature-Input', 'Signature'].map((name) => headerOf(headers, name));
  if (input === undefined || signature === undefined) {
    return refused('signature_missing', `header ${input === undefined ? 'Signature-Input' : 'Signature'} is absent`);
  }
  if (input.length + signature.length > MAX_LENGTH) {
    return refused('signature_malformed', `its headers have more than ${MAX_LENGTH} bytes`);
  }
  // Loaded for the first message: few services ever get one.
  const fields = await import('structured-headers');
  const [inputs, signatures] = [input, signature].map((text) => dictionaryIn(fields, text));
  if (inputs === undefined || signatures === undefined) {
    return refused('signature_malformed', 'Signature and Signature-Input are no dictionaries of structured fields');
  }
  const labels = [...inputs.keys()].filter((label) => signatures.has(label));
  if (labels.length === 0) return refused('signature_malformed', 'no signature has an input of its name');
  const results: Verification[] = [];
  for (const label of labels.slice(0, MAX_SIGNATURES)) {
    results.push(await verifyOne([inputs.get(label), signatures.get(label)], { fields, rule, request }));
  }
  const [verified, ...others] = results.filter((result) => result.isVerified);
  // Otherwise each signature alone would make a separate message.
  if (others.some(({ timestamp }) => timestamp?.text !== verified?.timestamp?.text)) {
    return refused('signature_malformed', 'its signatures were made at different times');
  }
  if (others.some(({ signedBytesSha256 }) => signedBytesSha256 !== verified?.signedBytesSha256)) {
    return refused('signature_malformed', 'its signatures do not all cover the body, and cover different things');
  }
  if (verified !== undefined) return { ...verified, isOneOfSeveral: labels.length > 1 };
  return results[0] ?? refused('signature_malformed', 'it has no signature');
}

function dictionaryIn({ parseDictionary }: Fields, text: string) {
  try {
    return parseDictionary(text);
  } catch {
    return undefined;
  }
}

interface Verifying {
  readonly fields: Fields;
  readonly rule: MessageRule;
  readonly request: StandardRequest;
}

async function verifyOne(
  [input, given]: readonly (Item | InnerList | undefined)[],
  { fields, rule, request }: Verifying,
): Promise<Verification> {
  if (!isInnerList(input) || !isBytes(given?.[0])) {
    return refused('signature_malformed', 'a signature is no byte sequence, or its input no list of components');
  }
  const [items, parameters] = input;
  const timestamp = timestampOf(parameters.get('created'));
  const components = items.flatMap(([name, own]): Component[] =>
    typeof name === 'string' ? [{ name, own, id: fields.serializeItem([name, own]) }] : [],
  );
  const problem = problemOf(components, items, { rule, parameters });
  if (problem !== undefined) return { ...problem, timestamp };
  const base = baseOf(components, { input, fields, request });
  if (!Buffer.isBuffer(base)) return { ...base, timestamp };
  const named = textOf(parameters.get('keyid'));
  const algorithm = textOf(parameters.get('alg'));
  const { current, previous } = await request.keysFor(named);
  const signature = Buffer.from(given[0]);
  const matches = (keys: readonly VerifyingKey[]) =>
    keys.slice(0, MAX_TRIED).filter((key) => isSignedWith(key, { named, algorithm, base, signature })).length > 0;
  const [isCurrent, isPrevious] = [matches(current), matches(previous)];
  if (!isCurrent && !isPrevious) {
    return refused('signature_mismatch', 'no configured key matches the signature', timestamp);
  }
  const coversBody = components.some(({ id }) => id === '"content-digest"');
  const digest = coversBody ? digestProblem(fields, request) : undefined;
  if (digest !== undefined) return { ...digest, timestamp };
  const late = expiryProblem(parameters.get('expires'), request);
  if (late !== undefined) return { ...late, timestamp };
  return {
    isVerified: true,
    usedPreviousKey: !isCurrent,
    signedBytesSha256: coversBody
      ? nonceOf({ fields, rule, request }, timestamp?.text)
      : nonceWithoutBody(components, { input, fields, request }),
    verifiedHeaders: undefined,
    timestamp,
  };
}

/**
 * A nonce from the components that every signature must cover, the body and the time. Other components differ between
 * the signatures of one message, and a sender may leave out some of these. In which order the trigger names them does
 * not count.
 */
function nonceOf({ fields, rule, request }: Verifying, created = ''): string {
  const components = [...new Set(rule.components)].sort().flatMap((component): Component[] => {
    const { name, id } = named(component);
    return name === 'content-digest' ? [] : [{ name, own: fields.parseItem(id)[1], id }];
  });
  const digest = createHash('sha256');
  for (const line of linesOf(components, { fields, request })) digest.update(`${line}\n`, 'latin1');
  return digest.update(`${created}\n`).update(request.delivery.body).digest('hex');
}

/**
 * A nonce from what the signature covers and nothing else: anyone who has it can send it with another body. It does not
 * count under which key and by which algorithm, so that one message signed with two keys has one nonce.
 */
function nonceWithoutBody(components: readonly Component[], { input, fields, request }: BaseInput): string {
  const [items, parameters] = input;
  const counting = new Map([...parameters].filter(([name]) => name !== 'keyid' && name !== 'alg'));
  const signed = signatureBase(components, { input: [items, counting], fields, request });
  return createHash('sha256').update(signed).digest('hex');
}

/** The reason why a signature does not count, regardless of its key. */
function problemOf(
  components: readonly Component[],
  items: readonly Item[],
  { rule, parameters }: { readonly rule: MessageRule; readonly parameters: Parameters },
): Refusal | undefined {
  const ids = new Set(components.map(({ id }) => id));
  if (components.length !== items.length || items.length > MAX_COMPONENTS || ids.size !== items.length) {
    return refused('signature_malformed', 'its components are no texts, too many, or there twice');
  }
  const missing = rule.components.find((component) => !isCovered(component, ids));
  if (missing !== undefined) return refused('signature_malformed', `the signature does not cover ${missing}`);
  const algorithm = parameters.get('alg');
  if (algorithm !== undefined && !Object.hasOwn(ALGORITHMS, textOf(algorithm) ?? '')) {
    return refused('signature_malformed', 'its algorithm is not accepted');
  }
  if (rule.keyId !== undefined && parameters.get('keyid') !== rule.keyId) {
    return refused('signature_mismatch', 'it is signed under another key id than the trigger names');
  }
  return undefined;
}

/** The components that contain another one: signing the whole signs the part too. */
const WITHIN: Readonly<Record<string, readonly string[]>> = {
  '@path': ['@target-uri', '@request-target'],
  '@query': ['@target-uri', '@request-target'],
  '@authority': ['@target-uri'],
  '@scheme': ['@target-uri'],
};

function isCovered(component: string, ids: ReadonlySet<string>): boolean {
  const { name, id } = named(component);
  return ids.has(id) || (name === component && (WITHIN[name] ?? []).some((whole) => ids.has(`"${whole}"`)));
}

/** The name of a component that a trigger asks for, and its signed form with parameters. */
function named(component: string): Pick<Component, 'name' | 'id'> {
  const [name = '', ...parameters] = component.split(';');
  return { name, id: [`"${name}"`, ...parameters].join(';') };
}

function baseOf(components: readonly Component[], built: BaseInput): Buffer | Refusal {
  try {
    return signatureBase(components, built);
  } catch (error) {
    if (error instanceof ComponentError) return refused('signature_malformed', error.message);
    throw error;
  }
}

function isSignedWith(
  key: VerifyingKey,
  signed: {
    readonly named: string | undefined;
    readonly algorithm: string | undefined;
    readonly base: Buffer;
    readonly signature: Buffer;
  },
): boolean {
  if (key.id !== undefined && signed.named !== undefined && key.id !== signed.named) return false;
  const own = key.algorithm === undefined ? undefined : (NAMES_OF_JWK[key.algorithm] ?? '');
  return OF_KIND[key.kind]
    .filter((algorithm) => [own, signed.algorithm].every((only) => only === undefined || only === algorithm))
    .some((algorithm) => ALGORITHMS[algorithm]?.(key, signed.base, signed.signature) === true);
}

const DIGESTS: Readonly<Record<string, string>> = { 'sha-256': 'sha256', 'sha-512': 'sha512' };

/** If there are several digests, every known one must be that of the body. */
function digestProblem(fields: Fields, { delivery: { headers, body } }: StandardRequest): Refusal | undefined {
  const digests = dictionaryIn(fields, headerOf(headers, 'content-digest') ?? '');
  const known = [...(digests ?? [])].filter(([name]) => Object.hasOwn(DIGESTS, name));
  if (known.length === 0) {
    return refused('signature_malformed', 'Content-Digest holds no digest of sha-256 or sha-512');
  }
  const isOfBody = known.every(([name, [value]]) => {
    const digest = createHash(DIGESTS[name] ?? '')
      .update(body)
      .digest();
    return isBytes(value) && value.byteLength === digest.length && timingSafeEqual(Buffer.from(value), digest);
  });
  return isOfBody ? undefined : refused('signature_mismatch', 'the body is not the one that Content-Digest describes');
}

function expiryProblem(
  expires: BareItem | undefined,
  { delivery, leewaySeconds }: StandardRequest,
): Refusal | undefined {
  if (expires === undefined) return undefined;
  if (typeof expires !== 'number') return refused('timestamp_malformed', 'when it expires is no number of seconds');
  return delivery.receivedAt <= (expires + leewaySeconds) * 1000
    ? undefined
    : refused('timestamp_skew', 'the signature has expired');
}

/** When the signature was made. */
function timestampOf(created: BareItem | undefined): SignedTimestamp | undefined {
  if (created === undefined) return undefined;
  const isTime = typeof created === 'number' && Number.isSafeInteger(created);
  return { text: isTime ? String(created) : '', ms: isTime ? created * 1000 : Number.NaN };
}

function isInnerList(member: Item | InnerList | undefined): member is InnerList {
  return Array.isArray(member?.[0]);
}

function isBytes(value: unknown): value is ArrayBuffer {
  return value instanceof ArrayBuffer;
}

function textOf(value: BareItem | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function refused(reason: Reason, detail: string, timestamp?: SignedTimestamp): Refusal {
  return { isVerified: false, reason, detail, timestamp };
}
