import { type SchemeTrait, WEBHOOK_ROWS, type WebhookField } from '../manifest/webhook-fields.ts';
import type { WebhookInputs } from './gate.ts';
import { handsOverKey } from './keys-in-force.ts';
import { findScheme, type KnownScheme, listSchemes, type SchemeRegistry } from './schemes/resolve.ts';
import type { Conversation, SignatureSpec } from './schemes/spec.ts';

/** Whether a scheme has a trait that makes it read a field. */
const HAS: Readonly<Record<SchemeTrait, (scheme: KnownScheme, field: WebhookField) => boolean>> = {
  custom: ({ kind }) => kind === 'custom',
  'short spec': ({ kind }) => kind === 'short',
  'names no header': (scheme) => isNamed(scheme, 'Token', 'Jwt'),
  jwt: (scheme) => isNamed(scheme, 'Jwt'),
  'message signatures': (scheme) => isNamed(scheme, 'HttpMessageSignatures'),
  'publisher asks for it': (scheme, field) =>
    scheme.kind === 'standard' && scheme.publisher?.asks.includes(field) === true,
  'may sign with SHA-1': (scheme) => formsOf(scheme).some(maySignWithSha1),
  'has a test system': (scheme) => formsOf(scheme).some(({ certificate }) => certificate?.sandbox !== undefined),
  'hands over its key': (scheme) => conversationsOf(scheme).some(handsOverKey),
  'needs a verify token': (scheme) =>
    conversationsOf(scheme).some(({ handshakes }) => handshakes?.some((it) => it.needsVerifyToken === true) === true),
};

/** A field that the scheme of its trigger does not read, and the schemes that do. */
interface UnreadField {
  readonly field: WebhookField;
  /** Undefined if the trigger names none. */
  readonly scheme: string | undefined;
  readonly readers: readonly string[];
}

/** Fields that ask for what the scheme does not do: their author expects another scheme. `false` asks for nothing. */
export function unreadFields(inputs: WebhookInputs, registry: SchemeRegistry): UnreadField[] {
  const { webhookSignatureScheme: name } = inputs;
  const scheme = findScheme(registry, name ?? '');
  // An unknown scheme may read any field.
  if (scheme === undefined && name !== undefined) return [];
  return (Object.keys(WEBHOOK_ROWS) as WebhookField[]).flatMap((field) => {
    const { readBy } = WEBHOOK_ROWS[field];
    const isAsked = inputs[field] !== undefined && inputs[field] !== false;
    if (!isAsked || readBy === 'every scheme') return [];
    const isReader = (each: KnownScheme) => readBy.some((trait) => HAS[trait](each, field));
    if (scheme !== undefined && isReader(scheme)) return [];
    const readers = listSchemes(registry).filter(isReader);
    return [{ field, scheme: scheme?.name, readers: readers.map(({ name }) => name) }];
  });
}

/** Whether it is one of our schemes: an operator may have a spec with such a name. */
function isNamed({ kind, name }: KnownScheme, ...names: readonly string[]): boolean {
  return (kind === 'token' || kind === 'standard') && names.includes(name);
}

/** Every form of a scheme that is known without a trigger. */
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
