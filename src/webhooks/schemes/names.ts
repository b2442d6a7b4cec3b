import { BUILT_IN_SCHEMES, STANDARD_PUBLISHERS } from './publishers/index.ts';
import type { RegisteredSpec, SchemeRegistry } from './resolve.ts';
import type { PublisherSpec, SignatureSpec, SignatureVerifier } from './spec.ts';
import { STANDARDS, type StandardName, type StandardPublisher } from './standards/standard.ts';
import { TOKEN_SCHEMES, tokenSpec } from './token.ts';

/** A scheme that a trigger may name. */
export type NamedScheme = { readonly name: string; readonly aliases: readonly string[] } & SchemeForm;

type SchemeForm =
  | { readonly kind: 'builtIn'; readonly spec: PublisherSpec }
  | { readonly kind: 'publisher'; readonly publisher: StandardPublisher }
  | { readonly kind: 'registered'; readonly registered: RegisteredSpec }
  | { readonly kind: 'verifier'; readonly verifier: SignatureVerifier }
  | { readonly kind: 'token'; readonly spec: SignatureSpec }
  | { readonly kind: 'standard'; readonly standard: StandardName }
  | { readonly kind: 'custom' };

interface Names {
  readonly name: string;
  readonly aliases?: readonly string[] | undefined;
}

const named = ({ name, aliases = [] }: Names, form: SchemeForm): NamedScheme => ({ name, aliases, ...form });

const PUBLISHERS = [
  ...BUILT_IN_SCHEMES.map((spec) => named(spec, { kind: 'builtIn', spec })),
  ...STANDARD_PUBLISHERS.map((publisher) => named(publisher, { kind: 'publisher', publisher })),
].sort((one, other) => one.name.localeCompare(other.name, 'en'));

/** Every scheme that a trigger may name; a registered spec replaces the built-in one that it shadows. */
export function namedSchemes(registry: SchemeRegistry): NamedScheme[] {
  const isFree = (name: string) => !registry.specs.has(name.toLowerCase());
  const publishers = PUBLISHERS.map((each) => ({ ...each, aliases: each.aliases.filter(isFree) }));
  const tokens = TOKEN_SCHEMES.map((name) => named({ name }, { kind: 'token', spec: tokenSpec(name, {}) }));
  const standards = STANDARDS.map((name) => named({ name }, { kind: 'standard', standard: name }));
  return [
    ...[...registry.verifiers.values()].map((verifier) =>
      named({ name: verifier.name }, { kind: 'verifier', verifier }),
    ),
    ...[...new Set(registry.specs.values())].map((registered) =>
      named(registered.kind === 'full' ? registered.spec : registered, { kind: 'registered', registered }),
    ),
    ...[...publishers, ...tokens, ...standards].filter(({ name }) => isFree(name)),
    named({ name: 'Custom' }, { kind: 'custom' }),
  ];
}
