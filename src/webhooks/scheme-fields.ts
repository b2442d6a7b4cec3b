import type { WebhookInputs } from './gate.ts';
import { handsOverKey } from './keys-in-force.ts';
import { findScheme, type KnownScheme, listSchemes, type SchemeRegistry } from './schemes/resolve.ts';
import type { Conversation, SignatureSpec } from './schemes/spec.ts';

type Field = keyof WebhookInputs;

const ofTrigger = () => true;
const ofCustom = ({ kind }: KnownScheme) => kind === 'custom';
/** An operator's short spec leaves the rest to the trigger. */
const ofDescribed = ({ kind }: KnownScheme) => kind === 'custom' || kind === 'short';
/** Schemes whose header is the trigger's to name. */
const isPlaced = (scheme: KnownScheme) => isNamed(scheme, 'Token', 'Jwt');
const ofJwt = (scheme: KnownScheme) => isNamed(scheme, 'Jwt');
const ofMessages = (scheme: KnownScheme) => isNamed(scheme, 'HttpMessageSignatures');
/** Publishers that sign by a standard leave some of its fields to the trigger. */
const asks = (field: Field) => (scheme: KnownScheme) =>
  scheme.kind === 'standard' && scheme.publisher?.asks.includes(field) === true;
const either =
  (...readers: ((scheme: KnownScheme) => boolean)[]) =>
  (scheme: KnownScheme) =>
    readers.some((reads) => reads(scheme));

/** Which schemes read each field; those that belong to the trigger go with every scheme. A new field has to say. */
const READ_BY: { readonly [Name in Field]-?: (scheme: KnownScheme) => boolean } = {
  webhookSlug: ofTrigger,
  webhookHmacKey: ofTrigger,
  webhookHmacKeyPrevious: ofTrigger,
  webhookSecret: ofTrigger,
  webhookSecretPrevious: ofTrigger,
  webhookLearnKey: (scheme) => conversationsOf(scheme).some(handsOverKey),
  webhookSignatureScheme: ofTrigger,
  webhookAllowSha1: (scheme) => ofDescribed(scheme) || formsOf(scheme).some(maySignWithSha1),
  webhookSandbox: (scheme) => formsOf(scheme).some(({ certificate }) => certificate?.sandbox !== undefined),
  webhookVerifyToken: (scheme) =>
    conversationsOf(scheme).some(({ handshakes }) => handshakes?.some((it) => it.needsVerifyToken === true) === true),
  webhookSignatureHeader: (scheme) => ofCustom(scheme) || isPlaced(scheme),
  webhookFurtherSignatureHeaders: ofDescribed,
  webhookSignatureForm: ofCustom,
  webhookSignatureAlgorithm: ofCustom,
  webhookKeyEncoding: either(ofDescribed, ofJwt, ofMessages),
  webhookSignatureEncoding: ofCustom,
  webhookSignaturePrefix: ofCustom,
  webhookSignatureMultiValueDelimiter: ofDescribed,
  webhookSignatureKeyValueSeparator: ofDescribed,
  webhookSignatureValueKey: ofDescribed,
  webhookHeaderValuePrefix: (scheme) => ofDescribed(scheme) || isPlaced(scheme),
  webhookAcceptMultipleSignatures: ofDescribed,
  webhookAcceptedVersions: ofDescribed,
  webhookSignedPayload: ofCustom,
  webhookSignedPayloadStrategy: ofCustom,
  webhookSignedPayloadDelimiter: ofDescribed,
  webhookSignedPayloadVersion: ofDescribed,
  webhookCustomStrategyName: ofDescribed,
  // Where the scheme signs no timestamp, the age of a delivery is judged by it all the same.
  webhookTimestampHeader: ofTrigger,
  webhookTimestampValueKey: ofDescribed,
  webhookTimestampField: ofDescribed,
  webhookTimestampUnit: ofDescribed,
  webhookDeliveryIdHeader: ofDescribed,
  webhookJwksUrl: either(ofJwt, ofMessages, asks('webhookJwksUrl')),
  webhookJwtIssuer: either(ofJwt, asks('webhookJwtIssuer')),
  webhookJwtAudience: either(ofJwt, asks('webhookJwtAudience')),
  webhookJwtBodyHashClaim: ofJwt,
  webhookRequiredComponents: ofMessages,
  webhookSignatureKeyId: ofMessages,
  webhookRequireTimestamp: ofTrigger,
  webhookReplayToleranceSeconds: ofTrigger,
  webhookNonceHeader: ofTrigger,
  webhookRateLimitPermitsPerSecond: ofTrigger,
  webhookRateLimitBurstSize: ofTrigger,
  webhookRateLimitPerIp: ofTrigger,
  webhookRateLimitUnverifiedPermitsPerSecond: ofTrigger,
  webhookRateLimitUnverifiedBurstSize: ofTrigger,
  webhookIpAllowList: ofTrigger,
  webhookIpDenyList: ofTrigger,
  webhookIpAllowListPreset: ofTrigger,
  webhookIpAllowListPresets: ofTrigger,
  webhookBodySchema: ofTrigger,
  webhookEnforcementMode: ofTrigger,
  // Also names what the publisher calls where its signature does not cover the URL.
  webhookPublicUrl: ofTrigger,
  webhookDuplicateResponse: ofTrigger,
  webhookWhen: ofTrigger,
  webhookEventId: ofTrigger,
  webhookEventIdDays: ofTrigger,
  webhookShared: ofTrigger,
  webhookExpectEvery: ofTrigger,
  webhookHoldDeliveries: ofTrigger,
  webhookRespond: ofTrigger,
  webhookResponse: ofTrigger,
};

/** A field that the scheme of its trigger does not read, and those that do. */
interface UnreadField {
  readonly field: Field;
  /** Undefined where the trigger names none. */
  readonly scheme: string | undefined;
  readonly readers: readonly string[];
}

/** Fields that ask for something which the scheme does not do: who wrote them expects another one. `false` asks for nothing. */
export function unreadFields(inputs: WebhookInputs, registry: SchemeRegistry): UnreadField[] {
  const { webhookSignatureScheme: name } = inputs;
  const scheme = findScheme(registry, name ?? '');
  // What an unknown one would read, nobody knows.
  if (scheme === undefined && name !== undefined) return [];
  return (Object.keys(READ_BY) as Field[]).flatMap((field) => {
    const isAsked = inputs[field] !== undefined && inputs[field] !== false;
    const isReader = READ_BY[field];
    if (!isAsked || isReader === ofTrigger || (scheme !== undefined && isReader(scheme))) return [];
    const readers = listSchemes(registry).filter(isReader);
    return [{ field, scheme: scheme?.name, readers: readers.map(({ name }) => name) }];
  });
}

/** Whether it is one of ours: an operator may have a spec of such a name. */
function isNamed({ kind, name }: KnownScheme, ...names: readonly string[]): boolean {
  return (kind === 'token' || kind === 'standard') && names.includes(name);
}

/** Every form of a scheme that is known before its trigger is. */
function formsOf(scheme: KnownScheme): SignatureSpec[] {
  if (scheme.kind !== 'full') return [];
  const { spec } = scheme;
  return [spec, spec.keyForm?.spec, spec.requestForm].filter((form) => form !== undefined);
}

function conversationsOf(scheme: KnownScheme): Conversation[] {
  if (scheme.kind === 'standard') return scheme.publisher === undefined ? [] : [scheme.publisher];
  return scheme.kind === 'verifier' ? [scheme.verifier] : formsOf(scheme);
}

function maySignWithSha1({ algorithm, alternatives = [], algorithmField }: SignatureSpec): boolean {
  const all = [
    algorithm,
    ...alternatives.map((it) => it.algorithm),
    ...Object.values(algorithmField?.algorithms ?? {}),
  ];
  return all.some((each) => each === 'sha1' || each === 'rsaSha1');
}
