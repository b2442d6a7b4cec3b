import type { WebhookInputs } from '../../model/manifest.ts';
import { checkSpec, type NamedSignatureSpec, readShortSpec, type ShortSpec } from './check-spec.ts';
import { customSpec, type PayloadBuilders } from './custom.ts';
import { BUILT_IN_SCHEMES } from './publishers/index.ts';
import type { PayloadBuilder, SignatureSpec, SignatureVerifier } from './spec.ts';

/** What an operator may register. */
export interface SchemeOptions {
  readonly verifiers?: readonly SignatureVerifier[] | undefined;
  readonly specs?: readonly (NamedSignatureSpec | SignatureSpec)[] | undefined;
  /** Byte builders for strategy Custom, by the exact name that manifests use. */
  readonly payloadBuilders?: Readonly<Record<string, PayloadBuilder>> | undefined;
}

/** Every scheme that a trigger may name beside the built-in ones, by lower-case name or alias. */
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
  | { readonly kind: 'spec'; readonly spec: SignatureSpec };

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
export function registerVerifiers(verifiers: readonly SignatureVerifier[]): ReadonlyMap<string, SignatureVerifier> {
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
export function resolveScheme(registry: SchemeRegistry, inputs: WebhookInputs): ResolvedScheme | undefined {
  const key = keyOf(inputs.webhookSignatureScheme ?? '');
  const verifier = registry.verifiers.get(key);
  if (verifier !== undefined) return { kind: 'verifier', verifier };
  const registered = registry.specs.get(key);
  if (registered?.kind === 'full') return { kind: 'spec', spec: registered.spec };
  if (registered !== undefined) {
    return { kind: 'spec', spec: completed(registered.spec, inputs, registry.payloadBuilders) };
  }
  const builtIn = BUILT_INS.get(key);
  if (builtIn !== undefined) return { kind: 'spec', spec: builtIn };
  return key === CUSTOM ? { kind: 'spec', spec: customSpec(inputs, registry.payloadBuilders) } : undefined;
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
