import type { KeyEncoding } from '../../model/manifest.ts';
import { coverageOf, gradeOf, strategyOf } from '../../webhooks/schemes/layout.ts';
import { type NamedScheme, namedSchemes } from '../../webhooks/schemes/names.ts';
import { type SetUp, setUpOf } from '../../webhooks/schemes/publishers/inputs.ts';
import { REGISTERED, type RegisteredSpec, type SchemeRegistry } from '../../webhooks/schemes/resolve.ts';
import {
  CAPTURED,
  type Certainty,
  type Conversation,
  type Grade,
  type PublisherSpec,
  type PublisherValue,
  type SignatureSpec,
  type SignatureVerifier,
} from '../../webhooks/schemes/spec.ts';
import {
  describedStandard,
  knownPublisher,
  type StandardName,
  type StandardPublisher,
} from '../../webhooks/schemes/standards/standard.ts';

/** A scheme as operators see it. Facts that only a trigger or a verifier's code knows are null. */
export interface SchemeDescription {
  readonly name: string;
  /** The publisher's own name; null if there is no publisher. */
  readonly title: string | null;
  readonly aliases: readonly string[];
  readonly kind: 'builtIn' | 'spec' | 'verifier' | 'standard' | 'custom';
  /** Signature headers, the current one first; empty if the body carries the signature. */
  readonly headers: readonly string[];
  readonly algorithm: string | null;
  readonly encoding: string | null;
  readonly prefix: string | null;
  readonly keyEncoding: KeyEncoding | null;
  readonly strategy: string | null;
  /** The signed timestamp; `name` is that of the header, the segment or the body's field. */
  readonly timestamp: { readonly in: string; readonly name: string; readonly unit: string } | null;
  readonly handshakes: readonly {
    readonly name: string;
    readonly method: string;
    readonly needsVerification: boolean;
    /** Whether the publisher hands the key over with it. */
    readonly bringsKey: boolean;
  }[];
  readonly deliveryIdHeader: string | null;
  /** Where the kind of an event is, and its id or the delivery's; null if the operator does not say. */
  readonly eventType: DescribedValue | null;
  readonly eventId: DescribedValue | null;
  readonly coverage: ReturnType<typeof coverageOf> | null;
  /** The form for keys with a certain prefix, if there are two forms. */
  readonly keyForm: {
    readonly prefix: string;
    readonly headers: readonly string[];
    readonly algorithm: string;
    readonly coverage: ReturnType<typeof coverageOf>;
    readonly grade: Grade | null;
  } | null;
  /** What the trigger's key names if the publisher's certificate verifies; null if the key itself verifies. */
  readonly certificateOf: string | null;
  readonly grade: Grade | null;
  /** What a captured delivery can be used for. */
  readonly captured: string | null;
  readonly source: string;
  /** How the facts are known; null if there is no publisher. */
  readonly certainty: Certainty | null;
  /** Facts that no source of the publisher's confirms; null if all are confirmed, or if there is no publisher. */
  readonly unconfirmed: string | null;
  /** How to set up a trigger; null if there is no publisher. */
  readonly setUp: SetUp | null;
}

/** `name` is the header, the current one of several, or the path in the body; `why` says why there is none. */
interface DescribedValue {
  readonly in: 'header' | 'body' | 'none';
  readonly name: string | null;
  readonly why: string | null;
}

export function describeSchemes(registry: SchemeRegistry): SchemeDescription[] {
  return namedSchemes(registry).map((scheme) => ({ ...describe(scheme), aliases: scheme.aliases }));
}

function describe(scheme: NamedScheme): SchemeDescription {
  switch (scheme.kind) {
    case 'builtIn':
      return describeBuiltIn(scheme.spec);
    case 'publisher':
      return describePublisher(scheme.publisher);
    case 'registered':
      return describeRegistered(scheme.registered);
    case 'verifier':
      return describeVerifier(scheme.verifier);
    case 'token':
      return describeSpec(scheme.spec, 'standard');
    case 'standard':
      return describeStandard(scheme.standard);
    case 'custom':
      return describeCustom();
  }
}

function describeSpec(spec: SignatureSpec, kind: SchemeDescription['kind']): SchemeDescription {
  const grade = gradeOf(spec);
  return {
    name: spec.name,
    title: null,
    aliases: [],
    kind,
    headers: headersOf(spec),
    algorithm: algorithmsOf(spec),
    encoding: spec.encoding,
    prefix: spec.prefix ?? null,
    keyEncoding: spec.keyEncoding ?? 'utf8',
    strategy: strategyOf(spec),
    timestamp: describeTimestamp(spec),
    handshakes: describeHandshakes(spec),
    deliveryIdHeader: spec.headers[0]?.deliveryId ?? null,
    eventType: describeValue(spec.eventType),
    eventId: describeValue(spec.eventId),
    coverage: coverageOf(spec),
    keyForm: describeKeyForm(spec),
    certificateOf: spec.certificate?.keyIs ?? null,
    grade,
    captured: grade === null ? null : CAPTURED[grade],
    source: spec.source,
    certainty: null,
    unconfirmed: spec.unconfirmed ?? null,
    setUp: null,
  };
}

function describeValue(value: PublisherValue | undefined): DescribedValue | null {
  if (value === undefined) return null;
  if ('none' in value) return { in: 'none', name: null, why: value.none };
  if ('path' in value) return { in: 'body', name: value.path.join('.'), why: null };
  return { in: 'header', name: value.headers[0] ?? null, why: null };
}

function headersOf({ headers, requestForm }: SignatureSpec): string[] {
  return [...headers, ...(requestForm?.headers ?? [])].flatMap(({ signature, furtherSignatures = [] }) => [
    signature,
    ...furtherSignatures,
  ]);
}

function algorithmsOf({ algorithm, alternatives = [], algorithmField }: SignatureSpec): string {
  const others = [...alternatives.map((it) => it.algorithm), ...Object.values(algorithmField?.algorithms ?? {})];
  return [...new Set([algorithm, ...others])].join(' or ');
}

function describeKeyForm({ keyForm }: SignatureSpec): SchemeDescription['keyForm'] {
  if (keyForm === undefined) return null;
  const { prefix, spec } = keyForm;
  return {
    prefix,
    headers: headersOf(spec),
    algorithm: algorithmsOf(spec),
    coverage: coverageOf(spec),
    grade: gradeOf(spec),
  };
}

function describeRegistered(registered: RegisteredSpec): SchemeDescription {
  if (registered.kind === 'full') return describeSpec(registered.spec, 'spec');
  const { name, headerName, algorithm, encoding, prefix, signedPayloadStrategy } = registered.spec;
  return {
    ...unknown(name, 'spec'),
    headers: [headerName],
    algorithm,
    encoding,
    prefix: prefix ?? null,
    keyEncoding: 'utf8',
    strategy: signedPayloadStrategy,
  };
}

function describeVerifier(verifier: SignatureVerifier): SchemeDescription {
  return { ...unknown(verifier.name, 'verifier'), handshakes: describeHandshakes(verifier) };
}

/** Leaves the coverage open, because each trigger decides it. */
function describeStandard(name: StandardName): SchemeDescription {
  const { headers } = describedStandard({ name, standard: name }, {});
  return { ...unknown(name, 'standard'), headers: [...headers], ...FACTS[name] };
}

function describeBuiltIn(spec: PublisherSpec): SchemeDescription {
  const { title, certainty } = spec;
  return { ...describeSpec(spec, 'builtIn'), title, certainty, setUp: setUpOf(spec.name) };
}

function describeCustom(): SchemeDescription {
  return { ...unknown('Custom', 'custom'), source: 'the webhookSignature… fields of the trigger' };
}

function describePublisher(publisher: StandardPublisher): SchemeDescription {
  const { name, title, certainty, unconfirmed, source, eventType, eventId } = publisher;
  const { headers, rule, coverage, grade } = describedStandard(knownPublisher(publisher), {});
  return {
    ...unknown(name, 'builtIn'),
    ...{ title, certainty, source, coverage, grade },
    headers: [...headers],
    algorithm:
      rule.keySetUrl === undefined && !publisher.asks.includes('webhookJwksUrl') ? 'JWT' : 'JWT, keys at a URL',
    strategy: publisher.standard,
    handshakes: describeHandshakes(publisher),
    eventType: describeValue(eventType),
    eventId: describeValue(eventId),
    captured: CAPTURED[grade],
    unconfirmed: unconfirmed ?? null,
    setUp: setUpOf(name),
  };
}

const FACTS: Readonly<Record<StandardName, Pick<SchemeDescription, 'algorithm' | 'source'>>> = {
  Jwt: { algorithm: 'HS256 to PS512, ES256 to ES512, EdDSA', source: 'RFC 7519, RFC 7515, RFC 7517' },
  HttpMessageSignatures: {
    algorithm: 'hmac-sha256, ed25519, ecdsa-p256-sha256, ecdsa-p384-sha384, rsa-pss-sha512, rsa-v1_5-sha256',
    source: 'RFC 9421, RFC 9530',
  },
};

function unknown(name: string, kind: SchemeDescription['kind']): SchemeDescription {
  return {
    name,
    title: null,
    aliases: [],
    kind,
    headers: [],
    algorithm: null,
    encoding: null,
    prefix: null,
    keyEncoding: null,
    strategy: null,
    timestamp: null,
    handshakes: [],
    deliveryIdHeader: null,
    eventType: null,
    eventId: null,
    coverage: null,
    keyForm: null,
    certificateOf: null,
    grade: null,
    captured: null,
    source: REGISTERED,
    certainty: null,
    unconfirmed: null,
    setUp: null,
  };
}

function describeTimestamp({ timestamp, headers }: SignatureSpec): SchemeDescription['timestamp'] {
  if (timestamp === undefined) return null;
  const { unit } = timestamp;
  if (timestamp.in === 'header') return { in: 'header', name: headers[0]?.timestamp ?? '', unit };
  if (timestamp.in === 'signature') return { in: 'signature', name: timestamp.valueKey, unit };
  return { in: 'body', name: timestamp.field.path.join('.'), unit };
}

function describeHandshakes({ handshakes }: Conversation): SchemeDescription['handshakes'] {
  return (handshakes ?? []).map(({ name, method, needsVerification, offeredKey }) => ({
    name,
    method,
    needsVerification,
    bringsKey: offeredKey !== undefined,
  }));
}
