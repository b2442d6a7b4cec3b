import { HEADER_NAME } from '../../model/delivery.ts';
import {
  SIGNATURE_CHOICES,
  type SignatureAlgorithm,
  type SignatureEncoding,
  type SignedPayloadStrategy,
} from '../../model/manifest.ts';
import type { WebhookInputs, WebhookTrigger } from '../gate.ts';
import { customSpec, type PayloadBuilders } from './custom.ts';
import { BUILT_IN_SCHEMES } from './publishers/index.ts';
import { hasFixedForm } from './signed-payload.ts';
import {
  formFor,
  type PayloadBuilder,
  type SignatureSpec,
  type SignatureVerifier,
  type SpecAlgorithm,
  type SpecStrategy,
} from './spec.ts';

/** What an operator may register. */
export interface SchemeOptions {
  readonly verifiers?: readonly SignatureVerifier[] | undefined;
  readonly specs?: readonly (NamedSignatureSpec | SignatureSpec)[] | undefined;
  /** Byte builders for strategy Custom, by the exact name that manifests use. */
  readonly payloadBuilders?: Readonly<Record<string, PayloadBuilder>> | undefined;
}

/** Every scheme that a trigger may name besides the built-in ones, by lower-case name or alias. */
export interface SchemeRegistry {
  readonly verifiers: ReadonlyMap<string, SignatureVerifier>;
  readonly specs: ReadonlyMap<string, RegisteredSpec>;
  readonly payloadBuilders: PayloadBuilders;
}

export type RegisteredSpec =
  | { readonly kind: 'short'; readonly name: string; readonly spec: ShortSpec }
  | { readonly kind: 'full'; readonly name: string; readonly spec: SignatureSpec };

export type ResolvedScheme =
  | { readonly kind: 'verifier'; readonly verifier: SignatureVerifier }
  | {
      readonly kind: 'spec';
      readonly spec: SignatureSpec;
      /** The form of the previous key, if it differs. */
      readonly previousSpec?: SignatureSpec | undefined;
    };

const CUSTOM = 'custom';

const BUILT_INS: ReadonlyMap<string, SignatureSpec> = new Map(
  BUILT_IN_SCHEMES.flatMap((spec) => [spec.name, ...(spec.aliases ?? [])].map((name) => [keyOf(name), spec])),
);

/** Throws a TypeError where a registration makes no sense. */
export function createSchemeRegistry(options: SchemeOptions = {}): SchemeRegistry {
  const payloadBuilders = new Map(Object.entries(options.payloadBuilders ?? {}));
  const specs = (options.specs ?? []).map((spec) => registeredSpec(spec, payloadBuilders));
  return {
    verifiers: registerVerifiers(options.verifiers ?? []),
    specs: byName(specs, 'signature spec', namesOf),
    payloadBuilders,
  };
}

/** A verifier never takes a built-in name, nor `Custom`: it would change who is let in without a word in a manifest. */
function registerVerifiers(verifiers: readonly SignatureVerifier[]): ReadonlyMap<string, SignatureVerifier> {
  for (const { name } of verifiers) {
    if (BUILT_INS.has(keyOf(name)) || keyOf(name) === CUSTOM) {
      throw new TypeError(`signature verifier "${name}" has the name of a built-in scheme; choose another`);
    }
  }
  return byName(verifiers, 'signature verifier');
}

function registeredSpec(spec: NamedSignatureSpec | SignatureSpec, builders: PayloadBuilders): RegisteredSpec {
  if ('headerName' in spec) return { kind: 'short', name: spec.name, spec: readShortSpec(spec) };
  checkSpec(spec);
  const { strategy, customName = '' } = spec.payload;
  const builder = spec.payload.builder ?? builders.get(customName);
  if (strategy !== 'Custom') return { kind: 'full', name: spec.name, spec };
  if (builder !== undefined) {
    return { kind: 'full', name: spec.name, spec: { ...spec, payload: { ...spec.payload, builder } } };
  }
  throw new TypeError(`signature spec "${spec.name}": payload strategy "${customName}" is not registered`);
}

/** A full spec may have aliases, as the built-in ones have. */
function namesOf(registered: RegisteredSpec): readonly string[] {
  return [registered.name, ...(registered.kind === 'full' ? (registered.spec.aliases ?? []) : [])];
}

function byName<Item extends { readonly name: string }>(
  items: readonly Item[],
  kind: string,
  names: (item: Item) => readonly string[] = ({ name }) => [name],
): ReadonlyMap<string, Item> {
  const map = new Map<string, Item>();
  for (const item of items) {
    for (const name of names(item)) {
      const key = keyOf(name);
      if (key === '') throw new TypeError(`a ${kind} has no name`);
      if (map.has(key)) throw new TypeError(`${kind} "${name}" is registered twice`);
      map.set(key, item);
    }
  }
  return map;
}

/** Whether a trigger that names the scheme gets a signature gate. */
export function isKnownScheme({ verifiers, specs }: SchemeRegistry, name: string): boolean {
  const key = keyOf(name);
  return verifiers.has(key) || specs.has(key) || BUILT_INS.has(key) || key === CUSTOM;
}

/**
 * The scheme that a trigger names: a registered verifier, then a registered spec, then a built-in, then `Custom`.
 * Undefined without a name or for an unknown one. Throws `GateConfigurationError` where the trigger's fields make no
 * sense.
 */
export function resolveScheme(
  registry: SchemeRegistry,
  inputs: WebhookInputs,
  /** Where a scheme has two forms, they decide. */
  keys?: WebhookTrigger['keys'],
): ResolvedScheme | undefined {
  const key = keyOf(inputs.webhookSignatureScheme ?? '');
  const verifier = registry.verifiers.get(key);
  if (verifier !== undefined) return { kind: 'verifier', verifier };
  const registered = registry.specs.get(key);
  if (registered?.kind === 'full') return inForms(registered.spec, keys);
  if (registered !== undefined) {
    return { kind: 'spec', spec: completed(registered.spec, inputs, registry.payloadBuilders) };
  }
  const builtIn = BUILT_INS.get(key);
  if (builtIn !== undefined) return inForms(builtIn, keys);
  return key === CUSTOM ? { kind: 'spec', spec: customSpec(inputs, registry.payloadBuilders) } : undefined;
}

function inForms(spec: SignatureSpec, keys: WebhookTrigger['keys'] | undefined): ResolvedScheme {
  const current = formFor(spec, keys?.current);
  const previous = keys?.previous === undefined ? current : formFor(spec, keys.previous);
  return { kind: 'spec', spec: current, ...(previous === current ? {} : { previousSpec: previous }) };
}

function completed(short: ShortSpec, inputs: WebhookInputs, builders: PayloadBuilders): SignatureSpec {
  const spec = customSpec(
    {
      ...inputs,
      webhookSignatureHeader: short.headerName,
      webhookSignatureAlgorithm: short.algorithm,
      webhookSignatureEncoding: short.encoding,
      webhookSignaturePrefix: short.prefix,
      webhookSignedPayloadStrategy: short.signedPayloadStrategy,
    },
    builders,
  );
  return { ...spec, name: short.name, source: REGISTERED };
}

/** The source of what an operator registered. */
export const REGISTERED = 'registered by the operator';

function keyOf(name: string): string {
  return name.trim().toLowerCase();
}

/** A spec of the operator's in short; everything else that it may need comes from the trigger's own fields. */
export interface NamedSignatureSpec {
  readonly name: string;
  readonly headerName: string;
  readonly algorithm: SignatureAlgorithm | Capitalize<SignatureAlgorithm>;
  readonly encoding: SignatureEncoding | Capitalize<SignatureEncoding>;
  readonly prefix?: string | undefined;
  readonly signedPayloadStrategy: SignedPayloadStrategy;
}

/** The same in canonical spelling. */
interface ShortSpec extends NamedSignatureSpec {
  readonly algorithm: SignatureAlgorithm;
  readonly encoding: SignatureEncoding;
}

const SPEC_ALGORITHMS: readonly SpecAlgorithm[] = [
  ...SIGNATURE_CHOICES.algorithms,
  'ed25519',
  'ecdsaP256',
  'rsaSha256',
  'rsaSha1',
  'token',
];
const SPEC_STRATEGIES: readonly SpecStrategy[] = [
  ...SIGNATURE_CHOICES.strategies,
  'BodyFields',
  'ChecksumLine',
  'Nothing',
];

const SIGNS_TIMESTAMP: readonly SpecStrategy[] = [
  'TimestampDotBody',
  'ColonDelimited',
  'TimestampPlusToken',
  'ChecksumLine',
];

/** Throws a TypeError that names the spec, the field and what is accepted: a config module may be plain JavaScript. */
function readShortSpec(spec: NamedSignatureSpec): ShortSpec {
  checkHeaderName(spec.name, 'headerName', spec.headerName);
  return {
    name: spec.name,
    headerName: spec.headerName,
    algorithm: oneOf(SIGNATURE_CHOICES.algorithms, spec.algorithm, `signature spec "${spec.name}": algorithm`),
    encoding: oneOf(SIGNATURE_CHOICES.encodings, spec.encoding, `signature spec "${spec.name}": encoding`),
    prefix: spec.prefix,
    signedPayloadStrategy: oneOf(
      SIGNATURE_CHOICES.strategies,
      spec.signedPayloadStrategy,
      `signature spec "${spec.name}": signedPayloadStrategy`,
    ),
  };
}

/** Throws a TypeError where a spec cannot work, so that no delivery has to find out. */
function checkSpec(spec: SignatureSpec): void {
  const place = `signature spec "${spec.name}"`;
  for (const { algorithm } of [spec, ...(spec.alternatives ?? [])]) {
    oneOf(SPEC_ALGORITHMS, algorithm, `${place}: algorithm`);
  }
  oneOf(SIGNATURE_CHOICES.encodings, spec.encoding, `${place}: encoding`);
  const strategy = oneOf(SPEC_STRATEGIES, spec.payload.strategy, `${place}: payload.strategy`);
  if (spec.headers.length === 0 && (spec.signatureFields ?? []).length === 0) {
    throw new TypeError(`${place} must name a header or a field of the body that carries the signature`);
  }
  for (const family of spec.headers) {
    for (const name of Object.values(family).flat()) {
      if (name !== undefined) checkHeaderName(spec.name, 'headers', name);
    }
  }
  if (spec.multiValue?.delimiter === '' || spec.multiValue?.keyValueSeparator === '') {
    throw new TypeError(`${place}: a delimiter of multiValue is empty`);
  }
  if (strategy === 'TimestampPlusToken' && spec.payload.token === undefined) {
    throw new TypeError(`${place}: strategy TimestampPlusToken needs payload.token`);
  }
  if (strategy === 'BodyFields' && spec.payload.fields === undefined) {
    throw new TypeError(`${place}: strategy BodyFields needs payload.fields`);
  }
  // A digest of nothing would be the same for all deliveries, and a token in front of what is signed proves nothing of it.
  if ((strategy === 'Nothing') !== (spec.algorithm === 'token')) {
    throw new TypeError(`${place}: the algorithm token goes with the strategy Nothing, and with no other`);
  }
  checkDeliveryId(spec, place);
  checkTimestamp(spec, place);
  checkIsSigned(spec, place);
}

function checkDeliveryId({ headers, payload }: SignatureSpec, place: string): void {
  if (payload.startsWithDeliveryId !== true) return;
  if (payload.strategy !== 'TimestampDotBody') {
    throw new TypeError(`${place}: strategy ${payload.strategy} does not sign a delivery id (startsWithDeliveryId)`);
  }
  if (headers.some(({ deliveryId }) => deliveryId === undefined)) {
    throw new TypeError(`${place}: the delivery id, which is signed, is in a header that headers do not name`);
  }
}

function checkTimestamp({ headers, multiValue, payload, timestamp }: SignatureSpec, place: string): void {
  const isNeeded = SIGNS_TIMESTAMP.includes(payload.strategy);
  if (timestamp === undefined && isNeeded) {
    throw new TypeError(`${place}: strategy ${payload.strategy} signs a timestamp; say where it is`);
  }
  if (!isCertain({ payload, timestamp })) {
    throw new TypeError(
      `${place}: nothing defines where the timestamp begins or ends; give payload.delimiter, or unit rfc3339, or a length`,
    );
  }
  if (timestamp?.in === 'header' && headers.some((family) => family.timestamp === undefined)) {
    throw new TypeError(`${place}: the timestamp is in a header that headers do not name`);
  }
  if (timestamp?.in === 'signature' && multiValue === undefined) {
    throw new TypeError(`${place}: the timestamp is in the signature header, which multiValue does not split`);
  }
}

/** A spec may not name a timestamp that anyone could change, and with it the age of a delivery. */
function checkIsSigned({ payload, timestamp }: SignatureSpec, place: string): void {
  const { strategy } = payload;
  if (timestamp === undefined || strategy === 'Custom' || SIGNS_TIMESTAMP.includes(strategy)) return;
  // Which members are signed, its own list says.
  if (payload.endsWithTimestamp === true || (strategy === 'BodyFields' && timestamp.in === 'body')) return;
  if (timestamp.in !== 'body' || strategy === 'UrlPlusSortedForm') {
    throw new TypeError(`${place}: strategy ${strategy} does not sign the timestamp: anyone could change it`);
  }
  const { path, formField } = timestamp.field;
  if (path.length > 0 && formField !== undefined) {
    throw new TypeError(
      `${place}: the timestamp is a JSON member (path) or a form's field (formField), not both: the content type, which is not signed, would choose`,
    );
  }
}

/** Whether no character of the timestamp could as well be the id's, the token's or the body's. */
function isCertain({ payload, timestamp }: Pick<SignatureSpec, 'payload' | 'timestamp'>): boolean {
  if (payload.endsWithTimestamp === true) return hasFixedForm(timestamp);
  switch (payload.strategy) {
    case 'TimestampPlusToken':
      return hasFixedForm(timestamp);
    case 'TimestampDotBody':
    case 'ColonDelimited':
      if (payload.startsWithDeliveryId === true && payload.delimiter === '') return timestamp?.unit === 'rfc3339';
      return payload.delimiter === undefined || /[^0-9]/.test(payload.delimiter) || hasFixedForm(timestamp);
    default:
      return true;
  }
}

function checkHeaderName(specName: string, field: string, name: unknown): void {
  if (typeof name === 'string' && HEADER_NAME.test(name)) return;
  throw new TypeError(`signature spec "${specName}": ${field}: ${JSON.stringify(name)} is not a header name`);
}

/** In any case: `Sha256`, `sha256`. */
function oneOf<Name extends string>(names: readonly Name[], value: unknown, field: string): Name {
  const name = names.find((it) => it.toLowerCase() === String(value).toLowerCase());
  if (name !== undefined) return name;
  throw new TypeError(`${field} is ${JSON.stringify(value)}; accepted: ${names.join(', ')}`);
}
