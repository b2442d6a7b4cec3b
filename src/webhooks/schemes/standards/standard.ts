import type { Delivery } from '../../../model/delivery.ts';
import { DEFAULT_COMPONENTS, type KeyEncoding } from '../../../model/manifest.ts';
import { GateConfigurationError, type WebhookInputs } from '../../gate.ts';
import { customHeader } from '../custom.ts';
import { type Coverage, gradeOfCoverage } from '../layout.ts';
import type { Certainty, Conversation, Grade, PublisherValue, SampleDelivery } from '../spec.ts';
import type { VerifyingKey } from './verifying-keys.ts';

/** Standards whose deliveries say by which algorithm and key they are signed: what a list of parts cannot say. */
export const STANDARDS = ['Jwt', 'HttpMessageSignatures'] as const;
export type StandardName = (typeof STANDARDS)[number];

/** What the trigger's fields make of a standard. Plain data: rules that are alike let in the same deliveries. */
export type StandardRule = JwtRule | MessageRule;

interface CommonRule {
  /** Where the publisher has its public keys; undefined where the trigger has the key. */
  readonly keySetUrl: string | undefined;
  /** What the text of a secret stands for. */
  readonly keyEncoding: KeyEncoding | undefined;
  readonly requiresTimestamp: boolean;
}

/** What a publisher makes of tokens, and no field of a trigger says. */
interface JwtForm {
  /** A header holds the token; the body is the token; or the body is what the token in the header leaves out (RFC 7797). */
  readonly carrier: 'header' | 'body' | 'detached';
  /** Without them it is a token for something else. */
  readonly requiredClaims: readonly string[];
  /** Where the time is at which it was made. */
  readonly time: { readonly in: 'claims' | 'header'; readonly name: string };
  /** A claim with the hash of what was called: the URL, or method, path and query as Atlassian writes them. */
  readonly urlHash: { readonly claim: string; readonly of: 'url' | 'atlassian' } | undefined;
}

export interface JwtRule extends CommonRule, JwtForm {
  readonly standard: 'Jwt';
  /** Empty where the body is the token. */
  readonly header: string;
  /** In front of the token, in any case. */
  readonly prefix: string;
  readonly issuer: string | undefined;
  readonly audience: string | undefined;
  readonly bodyHashClaim: string | undefined;
}

/** A publisher that signs by a standard. */
export interface StandardPublisher extends Conversation {
  readonly name: string;
  readonly title: string;
  readonly aliases?: readonly string[] | undefined;
  readonly standard: 'Jwt';
  readonly form: Partial<JwtForm>;
  /** What each trigger would have to say, and none may say otherwise. */
  readonly fixed: WebhookInputs;
  /** Fields that each trigger has to set: without them a token for someone else would pass. */
  readonly asks: readonly (keyof WebhookInputs)[];
  readonly eventType: PublisherValue;
  readonly eventId: PublisherValue;
  readonly sample: SampleDelivery | undefined;
  readonly source: string;
  readonly certainty: Certainty;
  readonly unconfirmed: string | undefined;
}

/** A scheme of a standard by its name, or that of a publisher. */
export interface KnownStandard {
  readonly name: string;
  readonly standard: StandardName;
  readonly publisher?: StandardPublisher | undefined;
}

export interface MessageRule extends CommonRule {
  readonly standard: 'HttpMessageSignatures';
  /** Identifiers that a signature has to cover, such as `@method` or `content-digest`. */
  readonly components: readonly string[];
  readonly keyId: string | undefined;
}

export function knownPublisher(publisher: StandardPublisher) {
  return { kind: 'standard', name: publisher.name, standard: publisher.standard, publisher } as const;
}

/** A scheme that a standard defines, with the fields of its trigger. */
export interface StandardScheme extends Conversation {
  readonly name: string;
  readonly publisher: StandardPublisher | undefined;
  readonly rule: StandardRule;
  /** Headers that carry the signature. */
  readonly headers: readonly string[];
  /** Whether its header alone lets in whoever has captured it, with any body. */
  readonly isBearer: boolean;
  /** Whether the URL of the delivery may be part of what is signed. */
  readonly readsUrl: boolean;
  readonly coverage: Coverage;
  readonly grade: Grade;
}

/** The keys of a trigger, or those of a publisher's set; several where the one that is meant is not told. */
export interface StandardKeys {
  readonly current: readonly VerifyingKey[];
  readonly previous: readonly VerifyingKey[];
}

export interface StandardRequest {
  readonly delivery: Delivery;
  /** Absolute, as the publisher called it. */
  readonly publicUrl: string;
  /** By how much a time limit that the publisher set may be passed. */
  readonly leewaySeconds: number;
  /** Those of a set may have been asked for by the id that the signer names; the trigger's own are always the same. */
  readonly keysFor: (id: string | undefined) => Promise<StandardKeys>;
}

/** Throws where the trigger lacks what its publisher's scheme asks for. */
export function standardScheme(known: KnownStandard, inputs: WebhookInputs): StandardScheme {
  const missing = known.publisher?.asks.find((field) => inputs[field] === undefined);
  if (missing === undefined) return describedStandard(known, inputs);
  throw new GateConfigurationError(
    missing,
    `is required with scheme ${known.name}, so that nothing passes that is meant for others`,
  );
}

/** The same as far as it can be said before there is a trigger. */
export function describedStandard({ name, standard, publisher }: KnownStandard, inputs: WebhookInputs): StandardScheme {
  if (publisher === undefined) return { ...(standard === 'Jwt' ? jwtScheme(inputs) : messageScheme(inputs)), name };
  const { handshakes, fixed, asks } = publisher;
  const read = ['webhookHmacKey', 'webhookSecret', 'webhookRequireTimestamp', ...asks] as const;
  const own: WebhookInputs = Object.fromEntries(read.map((field) => [field, inputs[field]]));
  return { ...jwtScheme({ ...own, ...fixed }, publisher.form), name, publisher, handshakes };
}

function jwtScheme(inputs: WebhookInputs, form: Partial<JwtForm> = {}): StandardScheme {
  const { carrier = 'header', requiredClaims = [], time = { in: 'claims', name: 'iat' }, urlHash } = form;
  const { header, prefix } = carrier === 'body' ? { header: '', prefix: '' } : bearerPlace(inputs);
  const { webhookJwtBodyHashClaim: bodyHashClaim } = inputs;
  const rule: JwtRule = {
    standard: 'Jwt',
    ...commonRule(inputs),
    ...{ carrier, requiredClaims, time, urlHash, header, prefix },
    issuer: inputs.webhookJwtIssuer,
    audience: inputs.webhookJwtAudience,
    bodyHashClaim,
  };
  const body = bodyHashClaim !== undefined || carrier !== 'header';
  // A time in the token tells of the delivery only where the token does.
  const coverage = { body, timestamp: body && rule.requiresTimestamp, id: false, url: urlHash !== undefined };
  return {
    name: 'Jwt',
    publisher: undefined,
    rule,
    headers: carrier === 'body' ? [] : [header],
    isBearer: !body,
    readsUrl: urlHash !== undefined,
    coverage,
    grade: gradeOfCoverage(coverage),
  };
}

function messageScheme(inputs: WebhookInputs): StandardScheme {
  const { webhookRequiredComponents: components = DEFAULT_COMPONENTS, webhookSignatureKeyId: keyId } = inputs;
  const rule: MessageRule = { standard: 'HttpMessageSignatures', ...commonRule(inputs), components, keyId };
  const nonceHeader = inputs.webhookNonceHeader?.trim().toLowerCase();
  const coverage = {
    body: components.includes('content-digest'),
    timestamp: rule.requiresTimestamp,
    id: nonceHeader !== undefined && components.includes(nonceHeader),
    url: components.some((it) => ['@path', '@target-uri', '@request-target'].includes(it)),
  };
  return {
    name: 'HttpMessageSignatures',
    publisher: undefined,
    rule,
    headers: ['Signature', 'Signature-Input'],
    isBearer: false,
    readsUrl: true,
    coverage,
    grade: gradeOfCoverage(coverage),
  };
}

function commonRule(inputs: WebhookInputs): CommonRule {
  const { webhookJwksUrl: keySetUrl, webhookKeyEncoding: keyEncoding, webhookRequireTimestamp } = inputs;
  const field = (['webhookHmacKey', 'webhookSecret'] as const).find((name) => inputs[name] !== undefined);
  if (keySetUrl !== undefined && field !== undefined) {
    throw new GateConfigurationError('webhookJwksUrl', `and ${field} name two keys; only one can be used`);
  }
  if (keySetUrl !== undefined && keyEncoding !== undefined) {
    throw new GateConfigurationError('webhookKeyEncoding', 'says how a secret is written, and webhookJwksUrl has none');
  }
  return { keySetUrl, keyEncoding, requiresTimestamp: webhookRequireTimestamp === true };
}

/** A header that the trigger names holds the token alone, unless the trigger says what is in front of it. */
export function bearerPlace({ webhookSignatureHeader: header, webhookHeaderValuePrefix }: WebhookInputs): {
  readonly header: string;
  readonly prefix: string;
} {
  if (header === undefined) return { header: 'Authorization', prefix: webhookHeaderValuePrefix ?? 'Bearer ' };
  if (typeof header !== 'string') {
    throw new GateConfigurationError('webhookSignatureHeader', 'is a list, and a token is in one header');
  }
  return { header: customHeader('webhookSignatureHeader', header), prefix: webhookHeaderValuePrefix ?? '' };
}
