import { createHash } from 'node:crypto';
import { URL_ENCODED_FORM } from '../../../model/form.ts';
import type { Json } from '../../../model/json.ts';
import { type Handshake, type HandshakeRefusal, type HandshakeRequest, isSameSecret } from '../handshake.ts';
import { fieldAt, tokensOf } from '../notation.ts';
import { readVerificationKey } from '../scheme-keys.ts';
import type { SignatureSpec } from '../spec.ts';
import { bodyReader, headerOf, mediaTypeOf } from '../values.ts';
import { hmac } from '../verify.ts';

/**
 * A handshake as data. Braces name parts of a request: `{query:NAME}`, `{field:PATH}` of a JSON body, `{form:NAME}` of
 * a form and `{header:NAME}`; in answers also `{token}`, the trigger's verify token, and `{url}`, the called URL.
 */
export interface HandshakeForm {
  /** The publisher's own name for it. */
  readonly name: string;
  readonly method: Handshake['method'];
  /** The publisher signs it, so it is answered only after its signature verified, in every enforcement mode. */
  readonly isSigned?: true;
  /** A text in the body that is searched for first, so that most deliveries need not be parsed. */
  readonly contains?: string;
  /** All must hold: `{query:code}` is present, `no {field:event}` absent, `{field:type} = ping` is that text or JSON. */
  readonly when?: readonly string[];
  /** In addition, at least one of these must hold. */
  readonly whenAny?: readonly string[];
  /** The text that must equal the trigger's verify token. */
  readonly verifyToken?: string;
  /** Further conditions; if one fails, the handshake is refused. */
  readonly must?: readonly string[];
  /** The place of the key that it hands over. */
  readonly key?: string;
  /** 200 with an empty body by default. */
  readonly answer?: {
    readonly status?: number;
    readonly text?: AnswerText;
    readonly json?: Readonly<Record<string, AnswerText | number>>;
    readonly headers?: Readonly<Record<string, string>>;
  };
  /** The echoed text may be a sentence, not just one word. */
  readonly echoesSentence?: true;
  /** Whether a failed handshake is answered without a body. */
  readonly failsEmpty?: true;
}

/** A text; its HMAC as deliveries are signed; or its plain SHA-256. */
type AnswerText =
  | string
  | { readonly hmac: string; readonly as: 'hex' | 'base64'; readonly prefix?: string }
  | { readonly sha256: string; readonly as: 'hex' | 'base64' };

// An echo to arbitrary senders must not contain anything that a browser could execute.
const ECHO = /^[A-Za-z0-9._~+/=-]{1,256}$/;
// This is as safe, for publishers whose challenge is a sentence.
const SENTENCE = /^[A-Za-z0-9 ._~+/=:;,@|-]{1,1024}$/;
// A text that is echoed in a header, or becomes a key, is one word. A key of a few letters could be guessed.
const WORD = /^[A-Za-z0-9._~+/=-]{16,256}$/;
/** The only texts for which an HMAC is made. `refuseOracle` ensures that no delivery is signed over such a text. */
const TOKEN = /^[A-Za-z0-9_-]{1,128}$/;

/** Throws a TypeError if an answer could be the signature of a delivery, or asks for an HMAC without a spec. */
export function handshakeOf(form: HandshakeForm, spec: SignatureSpec | undefined): Handshake {
  const { name, method, isSigned = false, contains, when = [], whenAny, verifyToken, key, answer = {} } = form;
  const texts = [answer.text, ...Object.values(answer.json ?? {})];
  if (texts.some((text) => typeof text === 'object' && 'hmac' in text)) refuseOracle(form, spec);
  const readsToken = verifyToken !== undefined || JSON.stringify(texts).includes('{token}');
  return {
    name,
    method,
    needsVerification: isSigned,
    ...(readsToken && { needsVerifyToken: true }),
    ...(form.failsEmpty && { failsEmpty: true }),
    recognises: (request) =>
      (contains === undefined || request.body.includes(contains)) &&
      when.every((it) => holds(it, request)) &&
      (whenAny?.some((it) => holds(it, request)) ?? true),
    ...(key !== undefined && { offeredKey: (request: HandshakeRequest) => matching(WORD, fill(key, request)) }),
    ...(readsToken && { refuse: (request: HandshakeRequest) => refusalOf(form, request) }),
    answer: (request) => answerOf(form, spec, request),
  };
}

/**
 * A sender that could freely choose the text of an HMAC would get the signature of any delivery. So only tokens are
 * answered, and the text that deliveries sign must always contain something that no token contains.
 */
function refuseOracle({ name }: HandshakeForm, spec: SignatureSpec | undefined): void {
  const forms = [spec, spec?.keyForm?.spec, spec?.requestForm].filter((form) => form !== undefined);
  if (forms.length > 0 && forms.every(({ signs }) => signs.some(isNoToken))) return;
  throw new TypeError(`what ${spec?.name} answers in ${name} could be the signature of a delivery`);
}

function isNoToken(it: SignatureSpec['signs'][number]): boolean {
  if (typeof it === 'string') return !TOKEN.test(it);
  return it.part === 'url' || (it.part === 'body' && it.isJsonObject === true);
}

function refusalOf({ verifyToken, must = [] }: HandshakeForm, request: HandshakeRequest): HandshakeRefusal | undefined {
  if (request.verifyToken === undefined) {
    return { statusCode: 403, reason: 'key_not_configured', detail: 'the trigger has no webhookVerifyToken' };
  }
  if (verifyToken === undefined) return undefined;
  const isSame = isSameSecret(fill(verifyToken, request) ?? '', request.verifyToken);
  if (isSame && must.every((it) => holds(it, request))) return undefined;
  const [token] = tokensOf(verifyToken);
  const what = typeof token === 'object' ? token.name.replace(/^\w+:/, '') : 'its token';
  return { statusCode: 403, reason: 'signature_mismatch', detail: `${what} is not webhookVerifyToken` };
}

function answerOf(
  { answer = {}, isSigned, echoesSentence }: HandshakeForm,
  spec: SignatureSpec | undefined,
  request: HandshakeRequest,
) {
  const { status: statusCode = 200, text, json, headers = {} } = answer;
  const echo = echoesSentence === true ? SENTENCE : ECHO;
  const words = Object.entries(headers).map(([name, value]) => {
    const isFixed = tokensOf(value).every((token) => typeof token === 'string');
    return [name, isFixed ? value : matching(WORD, fill(value, request))] as const;
  });
  if (words.some(([, word]) => word === undefined)) return undefined;
  const own = Object.fromEntries(words.flatMap(([name, word]) => (word === undefined ? [] : [[name, word]])));
  const sent = { statusCode, ...(words.length > 0 && { headers: own }) };
  if (json !== undefined) {
    const members = Object.entries(json).map(([name, value]) => {
      const member = typeof value === 'number' ? value : said(value, spec, request);
      return [name, isSigned || typeof member === 'number' ? member : matching(echo, member)] as const;
    });
    if (members.some(([, member]) => member === undefined)) return undefined;
    return { ...sent, contentType: 'application/json', body: JSON.stringify(Object.fromEntries(members)) };
  }
  if (text === undefined) return { ...sent, contentType: 'text/plain', body: '' };
  const body = matching(echo, said(text, spec, request));
  if (body === undefined) return undefined;
  return { ...sent, contentType: 'text/plain', body, headers: { ...own, 'x-content-type-options': 'nosniff' } };
}

function matching(form: RegExp, text: string | undefined): string | undefined {
  return text !== undefined && form.test(text) ? text : undefined;
}

/** Undefined if a part is absent or must not be answered. */
function said(text: AnswerText, spec: SignatureSpec | undefined, request: HandshakeRequest): string | undefined {
  if (typeof text === 'string') return fill(text, request);
  if ('sha256' in text) {
    const filled = fill(text.sha256, request);
    return filled === undefined ? undefined : createHash('sha256').update(filled).digest(text.as);
  }
  const token = matching(TOKEN, fill(text.hmac, request));
  // The publisher checks the answer with the key that it signed the question with.
  const key = request.usedPreviousKey === true ? request.keys.previous : request.keys.current;
  if (token === undefined || key === undefined || spec === undefined) return undefined;
  const { kind, key: secret } = readVerificationKey(spec, key, 'webhookHmacKey');
  if (kind !== 'hmac' || !isHash(spec.algorithm)) return undefined;
  return `${text.prefix ?? ''}${hmac(spec.algorithm, secret, [Buffer.from(token)]).toString(text.as)}`;
}

function isHash(algorithm: SignatureSpec['algorithm']) {
  return algorithm === 'sha1' || algorithm === 'sha256' || algorithm === 'sha384' || algorithm === 'sha512';
}

function holds(condition: string, request: HandshakeRequest): boolean {
  const [, place = condition, wanted] = /^(\{[^}]+\}) = (.*)$/s.exec(condition) ?? [];
  const value = broughtAt(place.replace(/^no /, ''), request);
  if (wanted !== undefined)
    return value !== undefined && (typeof value === 'string' ? value : JSON.stringify(value)) === wanted;
  return (value !== undefined) !== condition.startsWith('no ');
}

/** The text with values from the request; undefined if one is absent or is not a text. */
function fill(text: string, request: HandshakeRequest): string | undefined {
  const filled = tokensOf(text).map((token) =>
    typeof token === 'string' ? token : broughtAt(`{${token.name}}`, request),
  );
  return filled.every((it) => typeof it === 'string') ? filled.join('') : undefined;
}

/** The request's value for one place in braces. */
function broughtAt(
  place: string,
  { headers, query, body, verifyToken, publicUrl }: HandshakeRequest,
): Json | undefined {
  const [, kind, name = ''] = /^\{(\w+):?(.*)\}$/s.exec(place) ?? [];
  switch (kind) {
    case 'query':
      return query.get(name) ?? undefined;
    case 'header':
      return headerOf(headers, name);
    case 'field':
      return bodyReader({}, body)(fieldAt(name));
    case 'form':
      return mediaTypeOf(headers) === URL_ENCODED_FORM ? bodyReader(headers, body)(fieldAt(name)) : undefined;
    case 'token':
      return verifyToken;
    case 'url':
      return publicUrl;
    default:
      throw new TypeError(`"${place}" names nothing that a handshake brings`);
  }
}
