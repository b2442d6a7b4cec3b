import type { Delivery } from '../../../model/delivery.ts';
import { DEFAULT_COMPONENTS, type KeyEncoding } from '../../../model/manifest.ts';
import { GateConfigurationError, type WebhookInputs } from '../../gate.ts';
import { customHeader } from '../custom.ts';
import { type Coverage, gradeOfCoverage } from '../layout.ts';
import type { Certainty, Conversation, Grade, PublisherValue, SampleDelivery } from '../spec.ts';
import type { VerifyingKey } from './verifying-keys.ts';

/** Standards whose deliveries name the algorithm and key of their signature, which a list of parts cannot express. */
export const STANDARDS = ['Jwt', 'HttpMessageSignatures'] as const;
export type StandardName = (typeof STANDARDS)[number];

/** A standard with the choices of a trigger's fields. Plain data: equal rules let in the same deliveries. */
export type StandardRule = JwtRule | MessageRule;

interface CommonRule {
  /** The URL of the publisher's public keys; undefined if the trigger has the key. */
  readonly keySetUrl: string | undefined;
  /** How the text of a secret encodes its bytes. */
  readonly keyEncoding: KeyEncoding | undefined;
  readonly requiresTimestamp: boolean;
}

/** A publisher's use of tokens, as far as no field of a trigger determines it. */
interface JwtForm {
  /** A header holds the token; the body is the token; or the body is the content of a header's token (RFC 7797). */
  readonly carrier: 'header' | 'body' | 'detached';
  /** A token without these claims is for something else. */
  readonly requiredClaims: readonly string[];
  /** Where the token holds the time at which it was made. */
  readonly time: { readonly in: 'claims' | 'header'; readonly name: string };
  /** A claim with a hash of the called URL, or of method, path and query as Atlassian writes them. */
  readonly urlHash: { readonly claim: string; readonly of: 'url' | 'atlassian' } | undefined;
}

export interface JwtRule extends CommonRule, JwtForm {
  readonly standard: 'Jwt';
  /** Empty if the body is the token. */
  readonly header: string;
  /** The text in front of the token, matched in any case. */
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
  /** Fields that have the same value for every trigger, and that no trigger may change. */
  readonly fixed: WebhookInputs;
  /** Fields that each trigger must set: without them, a token for someone else would pass. */
  readonly asks: readonly (keyof WebhookInputs)[];
  readonly eventType: PublisherValue;
  readonly eventId: PublisherValue;
  readonly sample: SampleDelivery | undefined;
  readonly source: string;
  readonly certainty: Certainty;
  readonly unconfirmed: string | undefined;
}

/** A scheme by the name of its standard, or of a publisher. */
export interface KnownStandard {
  readonly name: string;
  readonly standard: StandardName;
  readonly publisher?: StandardPublisher | undefined;
}

export interface MessageRule extends CommonRule {
  readonly standard: 'HttpMessageSignatures';
  /** Identifiers that a signature must cover, such as `@method` or `content-digest`. */
  readonly components: readonly string[];
  readonly keyId: string | undefined;
}

export function knownPublisher(publisher: StandardPublisher) {
  return { kind: 'standard', name: publisher.name, standard: publisher.standard, publisher } as const;
}

/** A scheme that a standard defines, completed with the fields of its trigger. */
export interface StandardScheme extends Conversation {
  readonly name: string;
  readonly publisher: StandardPublisher | undefined;
  readonly rule: StandardRule;
  /** Headers that carry the signature. */
  readonly headers: readonly string[];
  /** Whether anyone who has captured its header gets in with any body. */
  readonly isBearer: boolean;
  /** Whether the URL of the delivery may be signed. */
  readonly readsUrl: boolean;
  readonly coverage: Coverage;
  readonly grade: Grade;
}

/** The keys of a trigger, or of a publisher's set; several if it is not known which one is meant. */
export interface StandardKeys {
  readonly current: readonly VerifyingKey[];
  readonly previous: readonly VerifyingKey[];
}

export interface StandardRequest {
  readonly delivery: Delivery;
  /** The absolute URL that the publisher called. */
  readonly publicUrl: string;
  /** By how many seconds a delivery may exceed a time limit of the publisher. */
  readonly leewaySeconds: number;
  /** Keys of a set may be fetched for the id that the signer names; the trigger's own keys are always the same. */
  readonly keysFor: (id: string | undefined) => Promise<StandardKeys>;
}

/** Throws if the trigger lacks a field that its publisher's scheme asks for. */
export function standardScheme(known: KnownStandard, inputs: WebhookInputs): StandardScheme {
  const missing = known.publisher?.asks.find((field) => inputs[field] === undefined);
  if (missing === undefined) return describedStandard(known, inputs);
  throw new GateConfigurationError(
    missing,
    `is required with scheme ${known.name}, so that nothing passes that is meant for others`,
  );
}

/** Describes a scheme as far as possible without a trigger. */
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
  // A time in the token says something about the delivery only if the token covers the body.
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

/** A header that the trigger names holds only the token, unless the trigger sets a prefix. */
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
