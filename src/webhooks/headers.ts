import type { WebhookInputs } from '../manifest/webhook-inputs.ts';
import type { Graph } from '../model/manifest.ts';
import { toSearchValue } from '../model/text.ts';
import { hasPart } from './schemes/layout.ts';
import { BUILT_IN_SCHEMES } from './schemes/publishers/index.ts';
import type { ResolvedScheme } from './schemes/resolve.ts';
import type { SignatureSpec } from './schemes/spec.ts';

const MAX_HEADERS = 100;
const MAX_HEADER_LENGTH = 8192;

/** Replaces the value of a header that is not kept. */
export const REDACTED = '[redacted]';

// A digest reveals nothing about its key. The name must end with the word: `x-signature-token` is not a digest.
const DIGEST = /(^|-)(signature|hmac)(-?(sha-?)?\d+|-ed25519|-v\d+|-primary|-secondary)?$/;
const CREDENTIAL =
  /auth|cookie|token|secret|passw|passphrase|pwd|credential|api-?key|(^|-)key$|jwt|assertion|session|saml|bearer|(^|-)(pin|otp|pass|sid)(-|$)/;
const NO_CREDENTIAL = /idempotency|^x-event-key$/;

/** Headers that describe the origin and kind of a delivery and contain no credential. */
const SHOWN = anyOf([
  /^(accept|accept-.*|cache-control|connection|content-.*|date|expect|host|keep-alive|origin|transfer-encoding|user-agent)$/,
  /^(forwarded|via|x-forwarded-.*|x-real-ip|cf-connecting-ip|true-client-ip|cf-ray)$/,
  /^(traceparent|tracestate|b3|x-b3-.*|x-amzn-trace-id|x-cloud-trace-context|(x-)?(request|correlation|trace)-(id|uuid))$/,
  /^(x-event-key|x-hook-uuid|ce-(id|source|specversion|subject|time|type)|(.*-)?idempotency-key)$/,
  /(^|-)(event|topic|delivery|webhook|message|attempt|retry)(-(id|type|name|time|num|number|count|reason|version|uuid|identifier))?$/,
  /^x-(github-(hook|enterprise)|shopify-(shop|api|triggered)|gitlab-(instance|event))-.*$/,
  /(^|-)(timestamp|nonce)$/,
  /^(content-|repr-)?digest$|^signature-input$/,
]);

const SCHEME_HEADERS: ReadonlySet<string> = namesIn(BUILT_IN_SCHEMES.flatMap(familiesOf));

const SIGNATURE_HEADERS: ReadonlySet<string> = new Set(
  BUILT_IN_SCHEMES.flatMap(({ headers }) => headers.map(({ signature }) => signature.toLowerCase())),
);

/** Whether a header's name, in lower case, says that it may hold a credential or a signature. */
export function mayHoldSecret(name: string): boolean {
  return DIGEST.test(name) || SIGNATURE_HEADERS.has(name) || kindOf(name).isCredential;
}

/** The values of search keys that are plain headers: for each key, the first of its headers that was sent. */
export function headerKeys(
  headers: Readonly<Record<string, string>>,
  keys: readonly (readonly [name: string, headers: readonly string[]])[],
): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, names] of keys) {
    const sent = names.find((header) => Object.hasOwn(headers, header));
    const value = sent === undefined ? undefined : toSearchValue(headers[sent] ?? '');
    if (value !== undefined) values[name] = value;
  }
  return values;
}

/** The headers of a delivery that the gates of a trigger, or its flow, may read. */
interface HeadersRead {
  /** Lower case. */
  readonly names: ReadonlySet<string>;
  /** Headers that hold a key or its equivalent, whatever their names say: their values are never kept. */
  readonly secret: ReadonlySet<string>;
  /** Whether other headers may be read that are not known beforehand: operator code or a delivery chooses them. */
  readonly isOpen: boolean;
}

export function headersRead(scheme: ResolvedScheme | undefined, inputs: WebhookInputs, steps: Graph): HeadersRead {
  const specs = scheme?.kind === 'spec' ? [scheme.spec, scheme.previousSpec ?? scheme.spec] : [];
  const families = specs.flatMap(familiesOf);
  const certificates = specs.flatMap(({ certificate }) =>
    certificate !== undefined && 'header' in certificate.url ? [certificate.url.header] : [],
  );
  const declared = scheme?.kind === 'verifier' ? scheme.verifier.headers : standardHeaders(scheme);
  const signed = specs.flatMap(({ signs }) =>
    signs.flatMap((it) => (typeof it !== 'string' && it.part === 'header' ? [it.name] : [])),
  );
  const own = [
    ...(declared ?? []),
    ...certificates,
    ...signed,
    inputs.webhookNonceHeader,
    inputs.webhookTimestampHeader,
    ...headersNamedIn(steps),
  ];
  const names = new Set([...namesIn(families), ...own.flatMap((name) => name?.trim().toLowerCase() ?? [])]);
  const isBuilt = specs.some(({ signs }) => hasPart(signs, 'built', 'headers'));
  const tokens = specs.filter(({ algorithm }) => algorithm === 'token').flatMap(familiesOf);
  const standard = scheme?.kind === 'standard' ? scheme.standard : undefined;
  const bearers = standard?.isBearer === true ? standard.headers : [];
  const secret = new Set([...tokens.map(({ signature }) => signature), ...bearers].map((name) => name.toLowerCase()));
  // With message signatures, each delivery itself says which headers its signature covers.
  const isChosen = standard?.rule.standard === 'HttpMessageSignatures';
  return { names, secret, isOpen: isBuilt || isChosen || (scheme?.kind === 'verifier' && declared === undefined) };
}

function standardHeaders(scheme: ResolvedScheme | undefined): readonly string[] | undefined {
  return scheme?.kind === 'standard' ? scheme.standard.headers : undefined;
}

/** Headers that steps forward or expressions name: the run of a redelivery reads them too. */
function headersNamedIn(steps: Graph): string[] {
  const text = JSON.stringify(steps);
  const read = text.matchAll(/trigger\.headers\s*(?:\.(\w+)|\[\s*\\?["']([\w-]+)\\?["']\s*\])/g);
  const sentOn = text.matchAll(/"forwardHeaders":\[([^\]]*)\]/g);
  return [
    ...[...read].flatMap(([, field, key]) => field ?? key ?? []),
    ...[...sentOn].flatMap(([, names = '']) => [...names.matchAll(/"([\w-]+)"/g)].flatMap(([, name]) => name ?? [])),
  ];
}

/** Headers of a delivery as they are kept. If both are the same, as for nearly every publisher, they are one object. */
export interface KeptHeaders {
  /** Kept with the record, and shown in views. */
  readonly shown: Readonly<Record<string, string>>;
  /** Kept with the run: all but apparent credentials. A flow may read any header, and only its author knows which. */
  readonly ofRun: Readonly<Record<string, string>>;
}

/**
 * Shows the values of headers that are known to hold no credential or that the gates read (`read`); of others, and
 * those that the trigger knows to be secret (`secret`), only the names. Long values are cut; a hundred headers at
 * most are kept.
 */
export function keptHeaders(
  headers: Readonly<Record<string, string>>,
  read: ReadonlySet<string> = NONE,
  secret: ReadonlySet<string> = NONE,
): KeptHeaders {
  const shown: Record<string, string> = {};
  let ofRun = shown;
  const names = Object.keys(headers);
  const count = Math.min(names.length, MAX_HEADERS);
  for (let at = 0; at < count; at += 1) {
    const name = names[at] ?? '';
    const { isShown, isOfScheme, isCredential } = kindOf(name);
    const isSecret = secret.has(name);
    const mayShow = !isSecret && (isShown || ((isOfScheme || read.has(name)) && !isCredential));
    const mayRead = !isSecret && !isCredential;
    const value = mayShow || mayRead ? cut(headers[name] ?? '') : REDACTED;
    if (mayShow !== mayRead && ofRun === shown) ofRun = { ...shown };
    set(shown, name, mayShow ? value : REDACTED);
    if (ofRun !== shown) set(ofRun, name, mayRead ? value : REDACTED);
  }
  return { shown, ofRun };
}

export function shownHeaders(...given: Parameters<typeof keptHeaders>): KeptHeaders['shown'] {
  return keptHeaders(...given).shown;
}

export function runHeaders(headers: Readonly<Record<string, string>>): KeptHeaders['ofRun'] {
  return keptHeaders(headers).ofRun;
}

const NONE: ReadonlySet<string> = new Set();

function anyOf(patterns: readonly RegExp[]): RegExp {
  return new RegExp(patterns.map(({ source }) => source).join('|'));
}

function set(kept: Record<string, string>, name: string, value: string): void {
  // An assignment would set the prototype.
  if (name === '__proto__') Object.defineProperty(kept, name, { value, enumerable: true });
  else kept[name] = value;
}

/** What can be said of a header from its name, regardless of the trigger. */
interface NameKind {
  readonly isShown: boolean;
  readonly isOfScheme: boolean;
  readonly isCredential: boolean;
}

// Publishers use the same few names, and matching the patterns took 4 µs per delivery. Senders choose the names, so
// only a limited number of short ones is remembered.
const MAX_KNOWN_NAMES = 1000;
const MAX_KNOWN_LENGTH = 64;
const knownKinds = new Map<string, NameKind>();

function kindOf(name: string): NameKind {
  const known = knownKinds.get(name);
  if (known !== undefined) return known;
  const isDigest = DIGEST.test(name);
  const kind = {
    isShown: isDigest || SHOWN.test(name),
    isOfScheme: SCHEME_HEADERS.has(name),
    isCredential: !isDigest && CREDENTIAL.test(name) && !NO_CREDENTIAL.test(name),
  };
  if (name.length > MAX_KNOWN_LENGTH) return kind;
  if (knownKinds.size === MAX_KNOWN_NAMES) knownKinds.clear();
  knownKinds.set(name, kind);
  return kind;
}

function cut(value: string): string {
  return value.length <= MAX_HEADER_LENGTH ? value : `${value.slice(0, MAX_HEADER_LENGTH)}…`;
}

function familiesOf({ headers, requestForm }: SignatureSpec): SignatureSpec['headers'] {
  return [...headers, ...(requestForm?.headers ?? [])];
}

function namesIn(families: SignatureSpec['headers']) {
  const names = families.flatMap((family) => Object.values(family).flat());
  return new Set(names.flatMap((name) => name?.trim().toLowerCase() ?? []));
}
