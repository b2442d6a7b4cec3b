import { createHash, createSecretKey } from 'node:crypto';
import type { WebhookTrigger } from '../../manifest/webhook-inputs.ts';
import type { Delivery } from '../../model/delivery.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import { SIGNATURE_CHOICES, type SignatureEncoding } from '../../model/manifest.ts';
import { hasPart, strategyOf } from '../../webhooks/schemes/layout.ts';
import { BUILT_IN_SCHEMES } from '../../webhooks/schemes/publishers/index.ts';
import { readVerificationKey, type SchemeKey } from '../../webhooks/schemes/scheme-keys.ts';
import { signedPayload } from '../../webhooks/schemes/signed-payload.ts';
import type { SignatureSpec } from '../../webhooks/schemes/spec.ts';
import { decodeExactly, NODE_ENCODINGS, parseJson } from '../../webhooks/schemes/values.ts';
import { extract, payloadInput, verifyWithSpec } from '../../webhooks/schemes/verify.ts';

/** A delivery whose signature did not verify, and what was used to verify it. */
interface SignatureQuestion {
  readonly spec: SignatureSpec;
  /** As configured. */
  readonly keys: WebhookTrigger['keys'];
  readonly delivery: Delivery;
  readonly publicUrl: string;
}

const ENCODINGS = ['hexLower', 'base64', 'base64Url'] as const satisfies readonly SignatureEncoding[];

// About forty digests are computed at once; with a larger body this would hold up everything else.
const MAX_BODY_BYTES = 1_048_576;

/**
 * Finds single known mistakes that would explain the failure: each hint says what matches, the likely cause and what to
 * do. For operators only; contains no key and no digest.
 */
export function findMistakes(question: SignatureQuestion): string[] {
  if (question.delivery.body.byteLength > MAX_BODY_BYTES) return ['The body is too large to look for known mistakes.'];
  const right = rightAsItIs(question);
  if (right.length > 0) return right;
  return [
    ...wrongKey(question),
    ...changedBody(question),
    ...wrongUrl(question),
    ...wrongForm(question),
    ...otherScheme(question),
  ];
}

/** What the signature covers and where it is, without any key. */
export function describeSignature({ spec, delivery, publicUrl }: Omit<SignatureQuestion, 'keys'>): JsonObject {
  const extraction = extract(spec, delivery);
  const { signature } = extraction;
  const payload = signedPayload(spec, payloadInput(extraction, { delivery, publicUrl }));
  const found = {
    layout: strategyOf(spec),
    algorithm: spec.algorithm,
    encoding: spec.encoding,
    headers: spec.headers.map((family) => family.signature),
    candidates: signature.kind === 'found' ? signature.texts.length : 0,
  };
  if (!payload.isComplete) return { ...found, signedBytes: null, problem: payload.detail };
  const bytes = Buffer.concat([...(payload.variants[0] ?? [])]);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { ...found, signedBytes: { length: bytes.byteLength, sha256 } };
}

function rightAsItIs(question: SignatureQuestion): string[] {
  const { current, previous, others = [] } = question.keys;
  const isRight = (key: string | undefined) => verifies({ ...question, keys: { current: key, previous: undefined } });
  if ([current, ...others].some(isRight)) return [asItIs('current')];
  if (!isRight(previous)) return [];
  if (current !== undefined) return [asItIs('previous')];
  return ['The signature matches the previous key, which counts only next to a current one. Set webhookHmacKey.'];
}

const asItIs = (which: string) =>
  `The signature itself matches the ${which} key: something else is wrong, or the trigger was corrected after the delivery arrived.`;

function wrongKey({ keys, ...question }: SignatureQuestion): string[] {
  return [
    ...keyVariants(question.spec, keys.current).map(([how, key]) => ({ how: `the key ${how}`, key })),
    ...(keys.others ?? []).flatMap((other) =>
      keyVariants(question.spec, other).map(([how, key]) => ({ how: `one of the keys ${how}`, key })),
    ),
    ...keyVariants(question.spec, keys.previous).map(([how, key]) => ({ how: `the previous key ${how}`, key })),
  ]
    .filter(({ key }) => verifiesWith(question, key))
    .map(({ how }) => `The signature matches with ${how}`);
}

function changedBody(question: SignatureQuestion): string[] {
  const { delivery } = question;
  return bodyVariants(delivery.body)
    .filter(([, body]) => verifies({ ...question, delivery: { ...delivery, body } }))
    .map(([how]) => `The signature matches ${how}`);
}

function wrongUrl(question: SignatureQuestion): string[] {
  if (!hasPart(question.spec.signs, 'url')) return [];
  return urlVariants(question.publicUrl)
    .filter(([, publicUrl]) => verifies({ ...question, publicUrl }))
    .map(
      ([how]) =>
        `The signature matches if the URL ${how}: the publisher calls a different URL than the one configured here. Set webhookPublicUrl or SLUICE_PUBLIC_URL to the URL entered at the publisher.`,
    );
}

function wrongForm(question: SignatureQuestion): string[] {
  const { spec } = question;
  const forms: [string, SignatureSpec][] = [
    ...ENCODINGS.filter((encoding) => encoding !== spec.encoding.replace('Upper', 'Lower')).map(
      (encoding): [string, SignatureSpec] => [`if it is read as ${NODE_ENCODINGS[encoding]}`, { ...spec, encoding }],
    ),
    ...SIGNATURE_CHOICES.algorithms
      .filter((algorithm) => algorithm !== spec.algorithm)
      .map((algorithm): [string, SignatureSpec] => [`if the algorithm is ${algorithm}`, { ...spec, algorithm }]),
    ['if it has no prefix', { ...spec, prefix: undefined }],
    ...['sha256=', 'sha1=', 'sha512=', 'v1=', 'v0='].map((prefix): [string, SignatureSpec] => [
      `if its prefix is "${prefix}"`,
      { ...spec, prefix },
    ]),
  ];
  return forms
    .filter(([, form]) => verifies({ ...question, spec: form }))
    .map(
      ([how]) =>
        `The signature matches ${how}: the publisher signs in a different format than the trigger expects. Change the scheme of the trigger, or the format at the publisher.`,
    );
}

function otherScheme(question: SignatureQuestion): string[] {
  const found = BUILT_IN_SCHEMES.filter(({ name }) => name !== question.spec.name)
    .filter((spec) => verifies({ ...question, spec }))
    .map(({ name }) => name);
  const [name, ...others] = found;
  if (name === undefined) return [];
  // Many publishers sign alike; only the trigger's author knows which of them sends.
  const alike = others.length === 0 ? '' : `, or to the one of your publisher: ${others.join(', ')} sign alike`;
  return [
    `The signature matches the scheme ${name}, but the trigger names another one. Set webhookSignatureScheme to "${name}"${alike}.`,
  ];
}

function verifies({ keys, ...question }: SignatureQuestion): boolean {
  return [keys.current, keys.previous, ...(keys.others ?? [])].some((text) => {
    const key = text === undefined ? undefined : readKey(question.spec, text);
    return key !== undefined && verifiesWith(question, key);
  });
}

function verifiesWith({ spec, delivery, publicUrl }: Omit<SignatureQuestion, 'keys'>, key: SchemeKey): boolean {
  try {
    return verifyWithSpec(spec, { current: key, previous: undefined }, { delivery, publicUrl }).isVerified;
  } catch {
    // If an operator's payload builder cannot build these bytes, they are not the signed ones.
    return false;
  }
}

function readKey(spec: SignatureSpec, text: string): SchemeKey | undefined {
  try {
    return readVerificationKey(spec, text, 'key');
  } catch {
    // A key that the scheme cannot read cannot verify anything.
    return undefined;
  }
}

/** How something may have been changed, in words, and the result. */
type Variant<Value> = readonly [how: string, value: Value];

/** Completes a hint: who changes the body, and what to do. */
const onItsWay = (what: string) =>
  `: something between the publisher and Sluice ${what}. It must forward the body unchanged.`;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** What the body may have been before something on the way changed it. */
function bodyVariants(body: Buffer): Variant<Buffer>[] {
  // latin1 maps each byte to one character, so nothing else changes.
  const text = body.toString('latin1');
  const texts: Variant<string>[] = [
    [`without the trailing newline${onItsWay('adds it')}`, text.replace(/\r?\n$/, '')],
    [`if a trailing newline is added${onItsWay('strips it')}`, `${text}\n`],
    [`with line ends as CR LF${onItsWay('changes them')}`, text.replace(/\r?\n/g, '\r\n')],
    [`with line ends as LF${onItsWay('changes them')}`, text.replace(/\r\n/g, '\n')],
    [`without the spaces around the body${onItsWay('adds them')}`, text.trim()],
  ];
  const variants: Variant<Buffer>[] = [
    ...texts.map(([how, value]): Variant<Buffer> => [how, Buffer.from(value, 'latin1')]),
    [
      'with an empty body: the publisher does not sign the body, or something on the way added one. Check what the publisher signs.',
      Buffer.alloc(0),
    ],
    ...reserialised(body),
  ];
  if (body.subarray(0, 3).equals(BYTE_ORDER_MARK)) {
    variants.push([`without the byte order mark${onItsWay('adds it')}`, body.subarray(3)]);
  }
  return distinct(variants, body);
}

function reserialised(body: Buffer): Variant<Buffer>[] {
  const json = parseJson(body);
  if (json === undefined) return [];
  const texts: Variant<string>[] = [
    ['as compact JSON', JSON.stringify(json)],
    ['as JSON indented by 2', JSON.stringify(json, null, 2)],
    ['as JSON indented by 4', JSON.stringify(json, null, 4)],
    ['as JSON with a space behind commas and colons', spaced(json)],
    ['as compact JSON with sorted names', JSON.stringify(sorted(json))],
    ['as compact JSON with escaped slashes', JSON.stringify(json).replaceAll('/', '\\/')],
    ['as compact JSON with characters beyond ASCII escaped', escaped(JSON.stringify(json))],
    ['as spaced JSON with characters beyond ASCII escaped', escaped(spaced(json))],
  ];
  return texts.map(([how, text]) => [`the body ${how}${onItsWay('re-serialises the JSON')}`, Buffer.from(text)]);
}

/** Formats JSON as Python does. */
function spaced(json: Json): string {
  if (Array.isArray(json)) return `[${json.map(spaced).join(', ')}]`;
  if (json === null || typeof json !== 'object') return JSON.stringify(json);
  const members = Object.entries(json).map(([name, value]) => `${JSON.stringify(name)}: ${spaced(value)}`);
  return `{${members.join(', ')}}`;
}

function sorted(json: Json): Json {
  if (Array.isArray(json)) return json.map(sorted);
  if (json === null || typeof json !== 'object') return json;
  const members = Object.entries(json).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(members.map(([name, value]) => [name, sorted(value)]));
}

function escaped(text: string): string {
  return text.replace(/[\u0080-\uffff]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

const OTHER_KEY_FORM =
  'the publisher reads it in a different format than the scheme does. Check that the trigger names the scheme of this publisher.';

/** Other ways in which the text of a key may have been meant. */
function keyVariants(spec: SignatureSpec, text: string | undefined): Variant<SchemeKey>[] {
  // User and password are always encoded as HTTP says.
  if (text === undefined || spec.isUserAndPassword === true) return [];
  const bare = text.trim();
  const withoutPrefix = bare.replace(/^(?:v1,)?whsec_/, '');
  const variants: Variant<Buffer>[] = [
    [`as plain text: ${OTHER_KEY_FORM}`, Buffer.from(text)],
    ['without the spaces or line end around it. Remove them where the key is stored.', Buffer.from(bare)],
    [
      'with a line end after it: it was entered this way at the publisher. Enter it there again without the line end.',
      Buffer.from(`${text}\n`),
    ],
    ['without its prefix "whsec_". Configure it without the prefix.', Buffer.from(withoutPrefix)],
    [`base64-decoded: ${OTHER_KEY_FORM}`, decoded(withoutPrefix, 'base64')],
    [`base64url-decoded: ${OTHER_KEY_FORM}`, decoded(withoutPrefix, 'base64url')],
    [`hex-decoded: ${OTHER_KEY_FORM}`, decoded(bare.toLowerCase(), 'hex')],
  ];
  const asConfigured = (spec.keyEncoding ?? 'utf8') === 'utf8' ? Buffer.from(text) : Buffer.alloc(0);
  const kind = spec.algorithm === 'token' ? 'token' : 'hmac';
  return distinct(variants, asConfigured).map(([how, bytes]) => [how, { kind, key: createSecretKey(bytes) }]);
}

/** Empty if the text is not in that encoding. */
function decoded(text: string, encoding: 'base64' | 'base64url' | 'hex'): Buffer {
  return decodeExactly(text, encoding) ?? Buffer.alloc(0);
}

/** Other URLs that the publisher may have called. */
function urlVariants(url: string): Variant<string>[] {
  const [, protocol = '', authority = '', path = '', query = ''] =
    /^(https?):\/\/([^/?#]*)([^?#]*)(.*)$/.exec(url) ?? [];
  if (protocol === '') return [];
  const other = protocol === 'https' ? 'http' : 'https';
  const host = authority.replace(/:\d+$/, '');
  const variants: Variant<string>[] = [
    [`starts with ${other}`, `${other}://${authority}${path}${query}`],
    ['has no port', `${protocol}://${host}${path}${query}`],
    [`starts with ${other} and has no port`, `${other}://${host}${path}${query}`],
    ['has no query', `${protocol}://${authority}${path}`],
    ['has no slash at its end', `${protocol}://${authority}${path.replace(/\/$/, '')}${query}`],
    ['has a slash at its end', `${protocol}://${authority}${path}/${query}`],
    ['has a lower-case path', `${protocol}://${authority}${path.toLowerCase()}${query}`],
  ];
  return variants.filter(([, variant], index) => variant !== url && firstIndex(variants, variant) === index);
}

function firstIndex(variants: readonly Variant<string>[], wanted: string): number {
  return variants.findIndex(([, variant]) => variant === wanted);
}

/** Each result once, without the one already tried and without empty ones, which are never meant. */
function distinct(variants: readonly Variant<Buffer>[], tried: Buffer): Variant<Buffer>[] {
  const seen = new Set([tried.toString('latin1')]);
  return variants.filter(([how, bytes]) => {
    const text = bytes.toString('latin1');
    if (seen.has(text) || (bytes.byteLength === 0 && !how.includes('empty'))) return false;
    seen.add(text);
    return true;
  });
}
