/**
 * One field of a form. Names and values are byte strings (latin1): each character is one byte, so that a digest gets
 * every byte, and sorting characters sorts bytes.
 */
export interface FormField {
  readonly name: string;
  readonly value: string;
}

// As many as common servers accept; publishers send fewer than a hundred, and each costs memory before verification.
export const MAX_FORM_FIELDS = 1000;

// Limit for the headers of one part; no publisher sends more.
const MAX_PART_HEAD_BYTES = 4096;

export const URL_ENCODED_FORM = 'application/x-www-form-urlencoded';

/** The fields of an urlencoded form, for signatures and expressions alike; undefined if there are over a thousand. */
export function decodeForm(body: Buffer): FormField[] | undefined {
  const pairs = body.toString('latin1').split('&', MAX_FORM_FIELDS + 1);
  if (pairs.length > MAX_FORM_FIELDS) return undefined;
  return pairs.filter((pair) => pair !== '').map(decodePair);
}

function decodePair(pair: string): FormField {
  const separator = pair.indexOf('=');
  if (separator === -1) return { name: decodeText(pair), value: '' };
  return { name: decodeText(pair.slice(0, separator)), value: decodeText(pair.slice(separator + 1)) };
}

function decodeText(text: string): string {
  return text
    .replaceAll('+', ' ')
    .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

export const MULTIPART_FORM = 'multipart/form-data';

/** One part of a `multipart/form-data` body; its texts are byte strings, as in a form field. */
interface FormPart {
  readonly name: string;
  /** Undefined for a text field. */
  readonly filename: string | undefined;
  readonly type: string | undefined;
  readonly bytes: Buffer;
}

// RFC 2046: at most 70 characters, quoted or not.
export function boundaryOf(contentType: string): string | undefined {
  const match = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType);
  return match?.[1] ?? match?.[2];
}

/** Parts of a multipart body, for signatures and expressions; undefined if over a thousand, or without an end. */
export function readMultipart(body: Buffer, boundary: string): FormPart[] | undefined {
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  const found: FormPart[] = [];
  // At the beginning of the body, the first boundary has no line break in front.
  let at = body.subarray(0, delimiter.length - 2).equals(delimiter.subarray(2)) ? -2 : body.indexOf(delimiter);
  for (let parts = 0; at !== -1; parts++) {
    const start = at + delimiter.length;
    const end = body.indexOf(delimiter, start);
    if (start + 2 >= body.length || body.toString('latin1', start, start + 2) === '--') return found;
    if (end === -1 || parts === MAX_FORM_FIELDS) return undefined;
    const part = readPart(body.subarray(start, end));
    if (part !== undefined) found.push(part);
    at = end;
  }
  return undefined;
}

/** The text fields of a multipart body; undefined as for `readMultipart`. */
export function decodeMultipart(body: Buffer, boundary: string): FormField[] | undefined {
  return readMultipart(body, boundary)
    ?.filter(({ filename }) => filename === undefined)
    .map(({ name, bytes }) => ({ name, value: bytes.toString('latin1') }));
}

/** RFC 2183: a value is quoted, or contains no space. */
const PARAMETER = /;\s*([^\s=;"]+)=(?:"((?:\\"|[^"])*)"|([^\s;"]*))/g;

function readPart(part: Buffer): FormPart | undefined {
  const headEnd = part.subarray(0, MAX_PART_HEAD_BYTES).indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const head = part.toString('latin1', 0, headEnd);
  const disposition = /^content-disposition:.*/im.exec(head)?.[0] ?? '';
  const given = new Map<string, string>();
  for (const [, key = '', quoted, bare = ''] of disposition.matchAll(PARAMETER)) {
    // Senders never repeat a parameter or send this many: a head full of them would cost a hundred times as much.
    if (given.has(key.toLowerCase()) || given.size === 8) break;
    given.set(key.toLowerCase(), quoted?.replaceAll('\\"', '"') ?? bare);
  }
  const name = given.get('name');
  if (name === undefined) return undefined;
  const coded = given.get('filename*')?.replace(/^.*'/, '').replaceAll('+', '%2B');
  const filename = coded === undefined ? given.get('filename') : decodeText(coded);
  const type = /^content-type:[ \t]*(.*?)[ \t]*$/im.exec(head)?.[1];
  return { name, filename, type, bytes: part.subarray(headEnd + 4) };
}
