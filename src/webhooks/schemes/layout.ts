import type { DeliveryPart, Grade, Part, SignatureSpec, TimestampSource, UrlPart } from './spec.ts';
import { bytesAsText, lengthOfTimestamp } from './values.ts';

/** The fields of a spec that determine its layout. */
export type SignedText = Pick<SignatureSpec, 'signs' | 'timestamp'>;

/**
 * Whether a character next to the boundary of two parts could belong to either, so that the holder of one delivery
 * could make another delivery with the same signed bytes.
 *
 * - `certain`: the parts show where it is. A short text that holds its own end mark is refused; none ever should.
 * - `conditional`: only the next character shows it, so bodies that begin with certain characters are refused.
 * - `uncertain`: nothing shows it.
 */
type Certainty = 'certain' | 'conditional' | 'uncertain';

interface Boundary {
  /** Positions of the two parts in the list. */
  readonly left: number;
  readonly right: number;
  readonly certainty: Certainty;
  /** Says why the boundary between these two values could be moved; undefined if it could not. */
  readonly problem?: undefined | ((left: SignedValue, right: SignedValue, sentQuery: string) => string | undefined);
}

/** Signed text as a byte string (latin1: each character is one byte), or bytes that need not be copied. */
export type SignedValue = string | Uint8Array;

/** A list of parts, ready for building signed bytes. */
interface Layout {
  /** Literals are byte strings. */
  readonly parts: readonly Part[];
  readonly boundaries: readonly Boundary[];
  readonly hasTimestamp: boolean;
  /** Position of the URL, which a publisher may write in several ways; undefined if it is not signed. */
  readonly url: { readonly at: number; readonly part: UrlPart } | undefined;
  /** Position of a body that may have arrived in another spelling than was signed; undefined if there is none. */
  readonly escapedBody: number | undefined;
  /**
   * Whether the signed bytes are the body as it came, alone or next to parts that cannot take characters from it. Then
   * timestamp and body distinguish deliveries; otherwise, as with a signed URL, only the signed bytes do. If nothing is
   * signed, only the body can distinguish them.
   */
  readonly isBodyAlone: boolean;
}

/** Parts that distinguish deliveries, as the body does. */
const NAMED = ['header', 'headers', 'query', 'path', 'target', 'host'] as const;

const layouts = new WeakMap<readonly Part[], Layout & Pick<SignedText, 'timestamp'>>();

/** Computes a layout once for each list of parts and timestamp form. */
export function layoutOf({ signs, timestamp }: SignedText): Layout {
  const known = layouts.get(signs);
  if (known !== undefined && known.timestamp === timestamp) return known;
  const boundaries = boundariesOf({ signs, timestamp });
  const isCertain = boundaries.every(({ certainty }) => certainty !== 'uncertain');
  const [url] = signs.flatMap((it, at) => (typeof it !== 'string' && it.part === 'url' ? [{ at, part: it }] : []));
  const escapedBody = signs.findIndex((it) => typeof it !== 'string' && it.part === 'body' && it.hasEscapedForm);
  const isAsSent = escapedBody === -1 && url === undefined;
  const layout = {
    timestamp,
    parts: signs.map((it) => (typeof it === 'string' ? bytesAsText(it) : it)),
    boundaries,
    hasTimestamp: hasPart(signs, 'timestamp'),
    url,
    escapedBody: escapedBody === -1 ? undefined : escapedBody,
    isBodyAlone: signs.length === 0 || (hasPart(signs, 'body') && isAsSent && isCertain && !hasPart(signs, ...NAMED)),
  };
  layouts.set(signs, layout);
  return layout;
}

export function hasPart(signs: readonly Part[], ...kinds: readonly DeliveryPart['part'][]): boolean {
  return signs.some((it) => typeof it !== 'string' && kinds.includes(it.part));
}

/**
 * Whether a time in the body is signed only as part of the whole body. Then the content type, which hardly any
 * publisher signs, must not choose whether it is read from JSON or from a form.
 */
export function isTimeInBodyAlone(signs: readonly Part[]): boolean {
  return hasPart(signs, 'body') && !hasPart(signs, 'timestamp');
}

/** The manifest strategy that signs these parts, or a similar name for layouts that no manifest can choose. */
export function strategyOf({ signs }: SignedText): string {
  if (signs.length === 0) return 'Nothing';
  if (hasPart(signs, 'built')) return 'Custom';
  if (hasPart(signs, 'sortedForm')) return 'UrlPlusSortedForm';
  if (hasPart(signs, 'url')) return 'UrlPlusBody';
  if (hasPart(signs, 'checksum')) return 'ChecksumLine';
  if (hasPart(signs, 'bodyHash', ...NAMED)) return 'SignedPayload';
  if (hasPart(signs, 'field')) return hasPart(signs, 'timestamp') ? 'TimestampPlusToken' : 'BodyFields';
  if (!hasPart(signs, 'timestamp')) return 'RawBody';
  return typeof signs[0] === 'string' ? 'ColonDelimited' : 'TimestampDotBody';
}

/**
 * A reader that knows where a part begins may find where it ends, and so proceeds from the front as far as the parts
 * allow, and likewise from the back. Boundaries that neither direction reaches are uncertain.
 */
function boundariesOf(text: SignedText): Boundary[] {
  const joints = jointsOf(text);
  const [ends, begins] = [joints.map(endOfLeft), joints.map(beginOfRight)];
  const [firstOpen, lastOpen] = [ends.indexOf(undefined), begins.lastIndexOf(undefined)];
  return joints.map(({ left, right, leftAt, rightAt }, at) => {
    const fromFront = firstOpen === -1 || at < firstOpen ? ends[at] : undefined;
    const fromBack = at > lastOpen ? begins[at] : undefined;
    const told = fromFront ?? fromBack ?? { certainty: 'uncertain', problem: queryProblem(left, right) };
    return { left: leftAt, right: rightAt, ...told };
  });
}

/** Two neighbouring parts, and the literal text between them as a byte string. */
interface Joint {
  readonly left: DeliveryPart;
  readonly leftAt: number;
  readonly gap: string;
  readonly right: DeliveryPart;
  readonly rightAt: number;
  readonly timestamp: TimestampSource | undefined;
}

function jointsOf({ signs, timestamp }: SignedText): Joint[] {
  const parts = signs.flatMap((it, at) => (typeof it === 'string' ? [] : [{ it, at }]));
  return parts.slice(1).flatMap(({ it: right, at: rightAt }, index) => {
    const { it: left, at: leftAt } = parts[index] ?? {};
    if (left === undefined || leftAt === undefined) return [];
    const gap = bytesAsText(signs.slice(leftAt + 1, rightAt).join(''));
    return [{ left, leftAt, gap, right, rightAt, timestamp }];
  });
}

/** Properties of a part's text that show where it begins and ends. */
interface Form {
  /** No such text is the beginning or the end of another such text. */
  readonly isFixed?: true;
  /** Only digits. */
  readonly isDigits?: true;
  /** A short text, which is refused if it contains the mark of its end. */
  readonly isMarked?: true;
  /** A text that it always contains, at a place that shows where it begins. */
  readonly landmark?: string;
}

function formOf(it: DeliveryPart, timestamp: TimestampSource | undefined): Form {
  switch (it.part) {
    case 'timestamp':
      // An RFC 3339 time begins with four digits, ends with Z or an offset, and its first colon is the 14th character.
      if (timestamp?.unit === 'rfc3339' || timestamp?.unit === 'rfc3339Offset') return { isFixed: true, landmark: ':' };
      if (timestamp?.unit === 'httpDate') return { isFixed: true };
      return lengthOfTimestamp(timestamp) === undefined ? { isDigits: true } : { isFixed: true };
    case 'keyName':
    case 'method':
    case 'bodyHash':
      // The trigger knows the key's name, no method is the beginning of another, and digests have one length.
      return { isFixed: true };
    case 'checksum':
      return { isDigits: true };
    case 'deliveryId':
    case 'path':
    case 'target':
    case 'host':
    case 'headers':
      return { isMarked: true };
    case 'header':
    case 'query':
      return it.length === undefined ? { isMarked: true } : { isFixed: true };
    case 'field':
      if (it.isFree === true) return {};
      return it.isLine === true || it.field.length !== undefined ? { isFixed: true } : { isMarked: true };
    case 'url':
      return { landmark: '://' };
    case 'body':
    case 'sortedForm':
    case 'built':
      return {};
  }
}

type BoundaryCertainty = Pick<Boundary, 'certainty' | 'problem'>;

/** How a reader that knows where the left part begins can find where it ends; undefined if nothing shows it. */
function endOfLeft({ left, gap, right, timestamp }: Joint): BoundaryCertainty | undefined {
  const { isFixed, isMarked, isDigits } = formOf(left, timestamp);
  if (isFixed && !isHidden(left, right)) return { certainty: 'certain' };
  const mark = gap === '' ? formOf(right, timestamp).landmark : gap;
  if (isMarked && mark !== undefined) {
    const detail = `${nameOf(left)} contains "${mark}", which could begin what follows it`;
    const isAmbiguous = (text: SignedValue) => `${text}${mark}`.indexOf(mark) !== text.length;
    return { certainty: 'certain', problem: (text) => (isAmbiguous(text) ? detail : undefined) };
  }
  if (isDigits && /[^0-9]/.test(gap)) return { certainty: 'certain' };
  if (left.part !== 'timestamp' || right.part !== 'body') return undefined;
  const detail = 'the body begins with a digit, which could be the end of the timestamp';
  return { certainty: 'conditional', problem: (_, body) => (/[0-9]/.test(firstOf(body)) ? detail : undefined) };
}

/** How a reader that knows where the right part ends can find where it begins; undefined if nothing shows it. */
function beginOfRight({ left, gap, right, timestamp }: Joint): BoundaryCertainty | undefined {
  const { isFixed, isMarked, isDigits } = formOf(right, timestamp);
  if (isFixed && !isHidden(right, left)) return { certainty: 'certain' };
  if (right.part === 'url') {
    const detail = 'the URL, which is signed, holds another URL';
    return { certainty: 'certain', problem: (_, url) => (`${url}`.split('://').length > 2 ? detail : undefined) };
  }
  if (isDigits && /[^0-9]/.test(gap)) return { certainty: 'certain' };
  if (!isMarked || gap === '') return undefined;
  const detail = `${nameOf(right)} contains "${gap}", which could end what is in front of it`;
  const isAmbiguous = (text: SignedValue) => `${gap}${text}`.lastIndexOf(gap) !== 0;
  return { certainty: 'certain', problem: (_, text) => (isAmbiguous(text) ? detail : undefined) };
}

/** A line that may be left out is recognised by its name, so only next to another line. */
function isHidden(it: DeliveryPart, neighbour: DeliveryPart): boolean {
  return it.part === 'field' && it.isOptional === true && !(neighbour.part === 'field' && neighbour.isLine === true);
}

// RFC 3986, section 3.4: the characters allowed in a query. JSON begins with none of these, except a bare number or
// word.
const QUERY = /^[A-Za-z0-9._~!$&'()*+,;=:@%/?-]+$/;

/**
 * If the request chooses the end of a URL, it must not be possible to move characters between the URL and the body. A
 * body that begins with a question mark could also be a query, so both readings are accepted; they share one nonce, so
 * only the first delivery passes.
 */
function queryProblem(left: DeliveryPart, right: DeliveryPart): Boundary['problem'] {
  if (left.part !== 'url' || right.part !== 'body') return undefined;
  const detail =
    'it is not certain where the URL ends and the body begins; webhookPublicUrl with the whole query settles it';
  return (_, body, sentQuery) =>
    sentQuery !== '' && (QUERY.test(firstOf(body)) || !QUERY.test(sentQuery)) ? detail : undefined;
}

/** The first byte as a character; empty if there is none. */
export function firstOf(value: SignedValue): string {
  return typeof value === 'string' ? value.slice(0, 1) : Buffer.from(value.subarray(0, 1)).toString('latin1');
}

/** The name of a part for people. */
export function nameOf(it: DeliveryPart): string {
  switch (it.part) {
    case 'field':
      return `the member ${it.field.path.join('.')} of the body`;
    case 'header':
      return `the header ${it.name}`;
    case 'query':
      return `the parameter ${it.name} of the URL`;
    case 'headers':
      return `the list of the header ${it.name}`;
    case 'deliveryId':
      return 'the delivery id';
    default:
      return `the ${it.part}`;
  }
}

/** What cannot be changed without breaking the signature; only this can reveal a replay. */
export interface Coverage {
  readonly body: boolean;
  readonly timestamp: boolean;
  readonly id: boolean;
  /** A delivery captured at one address does not verify at another. */
  readonly url: boolean;
}

export function coverageOf(spec: SignatureSpec): Coverage {
  return {
    // A timestamp or id that is not in place counts as unsigned, which lowers the grade by itself.
    body: coversBody(spec) && !openBoundaries(spec).some(({ left, right }) => hasPart([left, right], ...NAMED)),
    timestamp: spec.timestamp !== undefined && signsTimestamp(spec),
    id: isInPlace(spec, 'deliveryId', 'field'),
    url: hasPart(spec.signs, 'url', 'host'),
  };
}

/** Null if operator code builds the signed bytes: only the code knows what they cover. */
export function gradeOf(spec: SignatureSpec): Grade | null {
  if (hasPart(spec.signs, 'built')) return null;
  const coverage = coverageOf(spec);
  const grade = gradeOfCoverage(coverage);
  return grade === 'F' && coversBody(spec) ? 'E' : grade;
}

export function gradeOfCoverage({ body, timestamp, id }: Coverage): Grade {
  if (!body) return timestamp || id ? 'E' : 'F';
  if (timestamp) return id ? 'A' : 'B';
  return id ? 'C' : 'D';
}

/** Whether every change of the body breaks the signature; an operator's builder does not promise it. */
export function coversBody({ signs }: SignatureSpec): boolean {
  return hasPart(signs, 'body', 'sortedForm', 'bodyHash');
}

/** Boundaries that the holder of a delivery can move. The end of a URL is checked per delivery, or known otherwise. */
export function openBoundaries(text: SignedText): { readonly left: DeliveryPart; readonly right: DeliveryPart }[] {
  return layoutOf(text).boundaries.flatMap(({ left: leftAt, right: rightAt, certainty, problem }) => {
    const [left, right] = [text.signs[leftAt], text.signs[rightAt]];
    if (certainty !== 'uncertain' || problem !== undefined || typeof left !== 'object' || typeof right !== 'object')
      return [];
    return left.part === 'url' || right.part === 'url' ? [] : [{ left, right }];
  });
}

/** Whether changing the timestamp breaks the signature. An operator's builder promises that it does. */
export function signsTimestamp(spec: SignatureSpec): boolean {
  const { signs, timestamp, headers } = spec;
  if (isInPlace(spec, 'timestamp', 'built')) return true;
  if (timestamp?.in === 'header') {
    const isListed = (name = '') =>
      signs.some((it) => typeof it !== 'string' && it.part === 'headers' && it.must.includes(name.toLowerCase()));
    return headers.every((family) => isListed(family.timestamp));
  }
  if (timestamp?.in !== 'body') return false;
  const path = timestamp.field.path.join('.');
  return signs.some(
    (it) => typeof it !== 'string' && (it.part === 'body' || (it.part === 'field' && it.field.path.join('.') === path)),
  );
}

/** Whether one of these parts is signed, and no character can be moved into or out of it. */
export function isInPlace(spec: SignatureSpec, ...kinds: readonly DeliveryPart['part'][]): boolean {
  const { signs } = spec;
  const open = layoutOf(spec).boundaries.filter(({ certainty }) => certainty === 'uncertain');
  return signs.some(
    (it, at) => hasPart([it], ...kinds) && !open.some(({ left, right }) => left === at || right === at),
  );
}
