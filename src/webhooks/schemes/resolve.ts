import { copyOf, HEADER_NAME } from '../../model/delivery.ts';
import type { Json } from '../../model/json.ts';
import {
  SIGNATURE_CHOICES,
  type SignatureAlgorithm,
  type SignatureEncoding,
  type SignedPayloadStrategy,
} from '../../model/manifest.ts';
import { GateConfigurationError, type WebhookInputs, type WebhookTrigger } from '../gate.ts';
import { customSpec, type PayloadBuilders } from './custom.ts';
import type { Handshake } from './handshake.ts';
import { hasPart, isTimeInBodyAlone, layoutOf, signsTimestamp } from './layout.ts';
import { ANY_SENDER_HANDSHAKES, BUILT_IN_SCHEMES, STANDARD_PUBLISHERS } from './publishers/index.ts';
import {
  type Conversation,
  type Part,
  type PayloadBuilder,
  part,
  type SignatureSpec,
  type SignatureVerifier,
} from './spec.ts';
import {
  type KnownStandard,
  knownPublisher,
  STANDARDS,
  type StandardScheme,
  standardScheme,
} from './standards/standard.ts';
import { TOKEN_SCHEMES, type TokenScheme, tokenSpec } from './token.ts';
import { KEY_PAIRS } from './values.ts';

/** What an operator can register. */
export interface SchemeOptions {
  readonly verifiers?: readonly SignatureVerifier[] | undefined;
  readonly specs?: readonly (NamedSignatureSpec | SignatureSpec)[] | undefined;
  /** Byte builders for strategy Custom, by the exact name that manifests use. */
  readonly payloadBuilders?: Readonly<Record<string, PayloadBuilder>> | undefined;
}

/** Every scheme that a trigger may name in addition to the built-in ones, by lower-case name or alias. */
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
  | { readonly kind: 'standard'; readonly standard: StandardScheme }
  | {
      readonly kind: 'spec';
      readonly spec: SignatureSpec;
      /** The form of the previous key, if it differs. */
      readonly previousSpec?: SignatureSpec | undefined;
    };

/** A scheme by its name, before the fields of a trigger complete it. */
export type KnownScheme =
  | { readonly kind: 'verifier'; readonly name: string; readonly verifier: SignatureVerifier }
  | { readonly kind: 'custom'; readonly name: 'Custom' }
  | { readonly kind: 'token'; readonly name: TokenScheme }
  | (KnownStandard & { readonly kind: 'standard' })
  | RegisteredSpec;

/** Schemes that the fields of the trigger complete. */
const OF_TRIGGER: ReadonlyMap<string, KnownScheme> = new Map(
  (
    [
      ...STANDARD_PUBLISHERS.map(knownPublisher),
      ...TOKEN_SCHEMES.map((name) => ({ kind: 'token', name }) as const),
      ...STANDARDS.map((name) => ({ kind: 'standard', name, standard: name }) as const),
      { kind: 'custom', name: 'Custom' },
    ] as const
  ).flatMap((scheme) => {
    const aliases = 'publisher' in scheme ? (scheme.publisher.aliases ?? []) : [];
    return [scheme.name, ...aliases].map((name) => [keyOf(name), scheme] as const);
  }),
);

const BUILT_INS: ReadonlyMap<string, SignatureSpec> = new Map(
  BUILT_IN_SCHEMES.flatMap((spec) => [spec.name, ...(spec.aliases ?? [])].map((name) => [keyOf(name), spec])),
);

/** Throws a TypeError if a registration makes no sense. */
export function createSchemeRegistry(options: SchemeOptions = {}): SchemeRegistry {
  const builders = Object.entries(options.payloadBuilders ?? {});
  const payloadBuilders = new Map(builders.map(([name, build]): [string, PayloadBuilder] => [name, onCopy(build)]));
  const specs = (options.specs ?? []).map((spec) => registeredSpec(spec, payloadBuilders));
  return {
    verifiers: registerVerifiers(options.verifiers ?? []),
    specs: byName(specs, 'signature spec', namesOf),
    payloadBuilders,
  };
}

/** A verifier must not take a built-in name: that would change who gets in without any change of a manifest. */
function registerVerifiers(verifiers: readonly SignatureVerifier[]): ReadonlyMap<string, SignatureVerifier> {
  for (const { name } of verifiers) {
    if (BUILT_INS.has(keyOf(name)) || OF_TRIGGER.has(keyOf(name))) {
      throw new TypeError(`signature verifier "${name}" has the name of a built-in scheme; choose another`);
    }
  }
  return byName(verifiers, 'signature verifier');
}

/** Gives the builder a copy, because operator code may change the delivery. */
function onCopy(build: PayloadBuilder): PayloadBuilder {
  return (request) => build({ ...request, delivery: copyOf(request.delivery) });
}

function registeredSpec(spec: NamedSignatureSpec | SignatureSpec, builders: PayloadBuilders): RegisteredSpec {
  if ('headerName' in spec) return { kind: 'short', name: spec.name, spec: readShortSpec(spec) };
  checkSpec(spec);
  const signs = spec.signs.map((it): Part => {
    if (typeof it === 'string' || it.part !== 'built') return it;
    const build = it.build === undefined ? builders.get(it.name) : onCopy(it.build);
    if (build !== undefined) return { ...it, build };
    throw new TypeError(`signature spec "${spec.name}": payload strategy "${it.name}" is not registered`);
  });
  return { kind: 'full', name: spec.name, spec: { ...spec, signs } };
}

/** A full spec may have aliases, like built-in specs. */
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

/**
 * The scheme with a name: a registered verifier, else a registered spec, else a built-in scheme. Undefined for an
 * unknown name: a trigger with that name gets no signature gate.
 */
export function findScheme({ verifiers, specs }: SchemeRegistry, name: string): KnownScheme | undefined {
  const key = keyOf(name);
  const verifier = verifiers.get(key);
  if (verifier !== undefined) return { kind: 'verifier', name: verifier.name, verifier };
  const registered = specs.get(key);
  if (registered !== undefined) return registered;
  const builtIn = BUILT_INS.get(key);
  if (builtIn !== undefined) return { kind: 'full', name: builtIn.name, spec: builtIn };
  return OF_TRIGGER.get(key);
}

/** The operator's registration under the name, as data; a verifier is only `'verifier'`. Null for a built-in scheme. */
export function registrationOf({ verifiers, specs }: SchemeRegistry, name: string): Json {
  if (verifiers.has(keyOf(name))) return 'verifier';
  const spec = specs.get(keyOf(name))?.spec;
  // Case does not matter in header names.
  const inLowerCase = (key: string, value: unknown) =>
    key === 'headerName' && typeof value === 'string' ? value.toLowerCase() : value;
  return spec === undefined ? null : JSON.parse(JSON.stringify(spec, inLowerCase));
}

/** Every scheme that a trigger may name, once. */
export function listSchemes(registry: SchemeRegistry): KnownScheme[] {
  const names = [...registry.verifiers.keys(), ...registry.specs.keys(), ...BUILT_IN_SCHEMES.map(({ name }) => name)];
  const known = [...names, ...OF_TRIGGER.keys()].flatMap((name) => findScheme(registry, name) ?? []);
  return known.filter(({ name }, at) => known.findIndex((other) => other.name === name) === at);
}

/**
 * The scheme that a trigger names, completed with its fields. Undefined without a name or for an unknown name. Throws
 * `GateConfigurationError` if the trigger's fields make no sense.
 */
export function resolveScheme(
  registry: SchemeRegistry,
  inputs: WebhookInputs,
  /** The keys decide between two forms of a scheme. */
  keys?: WebhookTrigger['keys'],
): ResolvedScheme | undefined {
  const known = findScheme(registry, inputs.webhookSignatureScheme ?? '');
  switch (known?.kind) {
    case undefined:
      return undefined;
    case 'verifier':
      return { kind: 'verifier', verifier: known.verifier };
    case 'full':
      return inForms(known.spec, keys);
    case 'short':
      return { kind: 'spec', spec: completed(known.spec, inputs, registry.payloadBuilders) };
    case 'token':
      return { kind: 'spec', spec: tokenSpec(known.name, inputs) };
    case 'standard':
      return { kind: 'standard', standard: standardScheme(known, inputs) };
    case 'custom':
      return { kind: 'spec', spec: customSpec(inputs, registry.payloadBuilders) };
  }
}

function inForms(spec: SignatureSpec, keys: WebhookTrigger['keys'] | undefined): ResolvedScheme {
  const current = formFor(spec, keys?.current);
  if (keys?.others?.some((other) => formFor(spec, other) !== current) === true) {
    const message = `is a list of keys of two forms of ${spec.name}, of which one begins with ${spec.keyForm?.prefix}`;
    throw new GateConfigurationError('webhookHmacKey', message);
  }
  const previous = keys?.previous === undefined ? current : formFor(spec, keys.previous);
  return { kind: 'spec', spec: current, ...(previous === current ? {} : { previousSpec: previous }) };
}

/** The form of the scheme that a key belongs to. */
function formFor(spec: SignatureSpec, key: string | undefined): SignatureSpec {
  const { keyForm } = spec;
  return keyForm !== undefined && key?.startsWith(keyForm.prefix) === true ? keyForm.spec : spec;
}

function completed(short: ShortSpec, inputs: WebhookInputs, builders: PayloadBuilders): SignatureSpec {
  const spec = customSpec(
    {
      ...inputs,
      webhookSignatureForm: undefined,
      webhookSignedPayload: undefined,
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

/** The name and conversation that every scheme has, however it verifies. */
export function namedScheme(resolved: ResolvedScheme): Conversation & { readonly name: string } {
  switch (resolved.kind) {
    case 'verifier':
      return resolved.verifier;
    case 'standard':
      return resolved.standard;
    case 'spec':
      return resolved.spec;
  }
}

/** The scheme's own handshakes; if it belongs to no publisher, also those of publishers without their own scheme. */
export function handshakesOf(resolved: ResolvedScheme | undefined): readonly Handshake[] {
  const own = resolved === undefined ? [] : (namedScheme(resolved).handshakes ?? []);
  return isOfAnySender(resolved) ? [...own, ...ANY_SENDER_HANDSHAKES] : own;
}

function isOfAnySender(resolved: ResolvedScheme | undefined): boolean {
  if (resolved === undefined) return true;
  if (resolved.kind === 'standard') return resolved.standard.publisher === undefined;
  return resolved.kind === 'spec' && TOKEN_SCHEMES.some((name) => name === resolved.spec.name);
}

/** The source of schemes that an operator registered. */
export const REGISTERED = 'registered by the operator';

function keyOf(name: string): string {
  return name.trim().toLowerCase();
}

/** An operator's spec in short form; everything else comes from the fields of the trigger. */
export interface NamedSignatureSpec {
  readonly name: string;
  readonly headerName: string;
  readonly algorithm: SignatureAlgorithm | Capitalize<SignatureAlgorithm>;
  readonly encoding: SignatureEncoding | Capitalize<SignatureEncoding>;
  readonly prefix?: string | undefined;
  readonly signedPayloadStrategy: SignedPayloadStrategy;
}

/** The short form in canonical spelling. */
interface ShortSpec extends NamedSignatureSpec {
  readonly algorithm: SignatureAlgorithm;
  readonly encoding: SignatureEncoding;
}

const SPEC_ALGORITHMS = [...SIGNATURE_CHOICES.algorithms, ...Object.keys(KEY_PAIRS), 'token'];
const PARTS: readonly string[] = [
  ...Object.keys(part).filter((name) => name !== 'token' && name !== 'bodyHashBase64'),
  'built',
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

/** Throws a TypeError if a spec cannot work, so that this does not first show at a delivery. */
function checkSpec(spec: SignatureSpec): void {
  const place = `signature spec "${spec.name}"`;
  for (const { algorithm } of [spec, ...(spec.alternatives ?? [])]) {
    oneOf(SPEC_ALGORITHMS, algorithm, `${place}: algorithm`);
  }
  oneOf(SIGNATURE_CHOICES.encodings, spec.encoding, `${place}: encoding`);
  const unknown = spec.signs.find((it) => typeof it !== 'string' && !PARTS.includes(it.part));
  if (unknown !== undefined) {
    throw new TypeError(`${place}: signs has ${JSON.stringify(unknown)}; accepted: text and parts ${PARTS.join(', ')}`);
  }
  if (spec.headers.length === 0 && (spec.signatureFields ?? []).length === 0) {
    throw new TypeError(`${place} must name a header or a field of the body that carries the signature`);
  }
  for (const family of spec.headers) {
    for (const name of Object.values(family).flat()) {
      if (name !== undefined) checkHeaderName(spec.name, 'headers', name);
    }
  }
  const { delimiter, keyValueSeparator, setDelimiter } = spec.multiValue ?? {};
  if ([delimiter, keyValueSeparator, setDelimiter].includes('')) {
    throw new TypeError(`${place}: a delimiter of multiValue is empty`);
  }
  // A digest of nothing would be the same for all deliveries, and a token proves nothing about signed parts.
  if ((spec.signs.length === 0) !== (spec.algorithm === 'token')) {
    throw new TypeError(`${place}: the algorithm token goes with an empty list of signs, and with no other`);
  }
  if (hasPart(spec.signs, 'deliveryId') && spec.headers.some(({ deliveryId }) => deliveryId === undefined)) {
    throw new TypeError(`${place}: the delivery id, which is signed, is in a header that headers do not name`);
  }
  checkTimestamp(spec, place);
}

function checkTimestamp(spec: SignatureSpec, place: string): void {
  const { headers, multiValue, signs, timestamp } = spec;
  if (timestamp === undefined && hasPart(signs, 'timestamp')) {
    throw new TypeError(`${place}: a timestamp is signed; say where it is`);
  }
  // The service knows where the URL ends; the end that the request adds is checked with each delivery.
  const { boundaries, url } = layoutOf(spec);
  if (boundaries.some(({ certainty, left }) => certainty !== 'certain' && left !== url?.at)) {
    throw new TypeError(
      `${place}: a boundary between signed parts could be moved; give a delimiter, or the timestamp a length or unit rfc3339`,
    );
  }
  if (timestamp === undefined) return;
  if (timestamp.in === 'header' && headers.some((family) => family.timestamp === undefined)) {
    throw new TypeError(`${place}: the timestamp is in a header that headers do not name`);
  }
  if (timestamp.in === 'signature' && multiValue === undefined) {
    throw new TypeError(`${place}: the timestamp is in the signature header, which multiValue does not split`);
  }
  if (!signsTimestamp(spec)) throw new TypeError(`${place}: the timestamp is not signed: anyone could change it`);
  if (timestamp.in !== 'body' || !isTimeInBodyAlone(signs)) return;
  const { path, formField } = timestamp.field;
  if (path.length > 0 && formField !== undefined) {
    throw new TypeError(
      `${place}: the timestamp is a JSON member (path) or a form's field (formField), not both: the content type, which is not signed, would choose`,
    );
  }
}

function checkHeaderName(specName: string, field: string, name: unknown): void {
  if (typeof name === 'string' && HEADER_NAME.test(name)) return;
  throw new TypeError(`signature spec "${specName}": ${field}: ${JSON.stringify(name)} is not a header name`);
}

/** Matches names in any case: `Sha256`, `sha256`. */
function oneOf<Name extends string>(names: readonly Name[], value: unknown, field: string): Name {
  const name = names.find((it) => it.toLowerCase() === String(value).toLowerCase());
  if (name !== undefined) return name;
  throw new TypeError(`${field} is ${JSON.stringify(value)}; accepted: ${names.join(', ')}`);
}
