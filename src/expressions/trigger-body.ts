import { charsetOf, contentOf, type Declared, textReader } from '../model/content.ts';
import { boundaryOf, MULTIPART_FORM, URL_ENCODED_FORM } from '../model/form.ts';
import { isNestedDeeper, type Json, keepExactNumbers } from '../model/json.ts';
import type { RunTrigger } from '../model/run.ts';
import { formFields, multipartFields } from './forms.ts';
import { valueAt } from './json-path.ts';
import { ConversionError, MAX_DEPTH } from './values.ts';

/** A parsed body, or why it cannot be parsed. */
type ParsedBody =
  /** `envelope` is the body around the document, if the value is one of its fields. */
  { readonly value: Json; readonly envelope?: Json } | { readonly error: string };

/** Stores `document` among the headers of a run. A sender's header of that name never gets there. */
export const DOCUMENT_HEADER = 'sluice-document';

/** The declared form of a stored run's body. */
export function declaredBy(stored: Pick<RunTrigger, 'contentType' | 'headers'>): Declared {
  const { [DOCUMENT_HEADER]: document, 'content-encoding': contentEncoding } = stored.headers;
  return { contentType: stored.contentType ?? undefined, contentEncoding, document };
}

/**
 * Parses a trigger's body in its declared form. If the content type says JSON, the body must be JSON. With any other,
 * or none, the body is the fields of a multipart form, JSON if it parses, form fields, text, or `{ base64 }`. An empty
 * body is null. A body that exceeds the limits of nesting or form fields is an error only for expressions that read it;
 * it is stored and forwarded unchanged. Numbers that a double would change are kept exact, except for mere inspection.
 */
export function parseBody(body: Uint8Array, declared: Declared, numbers: 'exact' | 'doubles' = 'exact'): ParsedBody {
  const { contentType, contentEncoding, document } = declared;
  if (document !== undefined) {
    return opened(parseBody(body, { contentType, contentEncoding }, numbers), document, numbers);
  }
  if (contentEncoding !== undefined) return parseBody(contentOf(body, contentEncoding), { contentType }, numbers);
  if (body.byteLength === 0) return { value: null };
  const mediaType = mediaTypeOf(contentType);
  const boundary = mediaType === MULTIPART_FORM ? boundaryOf(contentType ?? '') : undefined;
  if (boundary !== undefined) {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    if (bytes.includes(`--${boundary}`, 0, 'latin1')) return multipartFields(bytes, boundary);
  }
  const text = textOf(body, contentType);
  if (text === undefined) {
    return saysJson(mediaType) ? { error: NO_TEXT } : { value: { base64: Buffer.from(body).toString('base64') } };
  }
  const json = readJson(text);
  if ('value' in json) {
    if (isNestedDeeper(text, MAX_DEPTH)) return { error: `the body is nested deeper than ${MAX_DEPTH} levels` };
    return { value: numbers === 'exact' ? keepExactNumbers(json.value, text) : json.value };
  }
  if (saysJson(mediaType)) return { error: notJson(json.where) };
  return mediaType === URL_ENCODED_FORM ? formFields(body, contentType) : { value: text };
}

/** Parses the document in a text field of the body. Without such a field, the body itself is the value. */
function opened(whole: ParsedBody, document: string, numbers: 'exact' | 'doubles'): ParsedBody {
  if ('error' in whole) return whole;
  const [path = '', encoding] = document.split(';');
  const text = valueAt(whole.value, path.split('.'));
  if (typeof text !== 'string') return whole;
  const parsed = parseBody(
    Buffer.from(text, encoding === 'base64' ? 'base64' : 'utf8'),
    { contentType: undefined },
    numbers,
  );
  return 'error' in parsed ? parsed : { value: parsed.value, envelope: whole.value };
}

/** Larger bodies are not parsed only for search keys, nor with exact numbers. */
const MAX_KEYED_BYTES = 64 * 1024;

/** The body of a delivery in progress, parsed once: the JSON check parses it, and search keys read the parsed value. */
export class ArrivingBody {
  readonly #bytes: Uint8Array;
  readonly #contentType: string | undefined;
  readonly #document: string | undefined;
  #json: { readonly text: string; readonly value: Json } | undefined;
  #parsed: ParsedBody | undefined;
  #exact: ParsedBody | undefined;

  constructor(bytes: Uint8Array, declared: Declared) {
    const { contentType, contentEncoding, document } = declared;
    this.#document = document;
    this.#bytes = contentEncoding === undefined ? bytes : contentOf(bytes, contentEncoding);
    this.#contentType = contentType;
  }

  /** Whether the content type says JSON but the body is not. */
  isMalformed(): boolean {
    if (this.#bytes.byteLength === 0 || !saysJson(mediaTypeOf(this.#contentType))) return false;
    const text = textOf(this.#bytes, this.#contentType);
    const json = text === undefined ? { where: '' } : readJson(text);
    if (text === undefined || 'where' in json) return true;
    this.#json = { text, value: json.value };
    return false;
  }

  /** The value for expressions, if parsing is cheap; the depth of nesting does not matter. */
  parsed(): ParsedBody {
    this.#parsed ??= this.#document === undefined ? this.#parse() : opened(this.#parse(), this.#document, 'exact');
    return this.#parsed;
  }

  /** Like `parsed`; throws `ConversionError` if the body cannot be parsed. */
  value(): Json {
    return readable(this.parsed()).value;
  }

  /** Like `exactValue`, of the body around the document; the same if there is none. */
  envelope(): Json {
    return this.#exactly().envelope ?? this.exactValue();
  }

  /** Like `value`, for a body of any size and with all numbers exact: for decisions about the delivery. */
  exactValue(): Json {
    return this.#exactly().value;
  }

  #exactly() {
    if (this.#bytes.byteLength <= MAX_KEYED_BYTES) return readable(this.parsed());
    this.#exact ??= parseBody(this.#bytes, { contentType: this.#contentType, document: this.#document });
    return readable(this.#exact);
  }

  #parse(): ParsedBody {
    const isLarge = this.#bytes.byteLength > MAX_KEYED_BYTES;
    if (this.#json === undefined) {
      if (!isLarge) return parseBody(this.#bytes, { contentType: this.#contentType });
      return { error: `the body has ${this.#bytes.byteLength} bytes, and ${MAX_KEYED_BYTES} are read` };
    }
    const { text, value } = this.#json;
    return { value: isLarge ? value : keepExactNumbers(value, text) };
  }
}

function readable(parsed: ParsedBody): Exclude<ParsedBody, { readonly error: string }> {
  if ('error' in parsed) throw new ConversionError(`the body cannot be read: ${parsed.error}`);
  return parsed;
}

const NO_TEXT =
  'the content type says JSON and the body is not text of its charset, which is UTF-8 unless it names one';

function notJson(where: string): string {
  return `the content type says JSON and the body is not JSON${where}`;
}

/** A malformed content type counts as missing; ignores parameters and case. */
function mediaTypeOf(contentType: string | undefined): string {
  return (contentType ?? '').split(/[;,]/, 1).join('').trim().toLowerCase();
}

function saysJson(mediaType: string): boolean {
  return mediaType === 'application/json' || /^[^\s/]+\/[^\s/]+\+json$/.test(mediaType);
}

// Shared, because it keeps no state between texts.
const UTF_8 = new TextDecoder('utf-8', { fatal: true });

/** Undefined for bytes that are not UTF-8; drops a leading byte order mark. */
export function decodeUtf8(body: Uint8Array): string | undefined {
  try {
    return UTF_8.decode(body);
  } catch {
    return undefined;
  }
}

/** Text in the charset that the content type names, or UTF-8; undefined for invalid bytes. */
function textOf(body: Uint8Array, contentType: string | undefined): string | undefined {
  if (contentType === undefined || !OTHER_CHARSET.test(contentType)) return decodeUtf8(body);
  return (textReader(charsetOf(contentType) ?? 'utf-8') ?? decodeUtf8)(body);
}

/** Whether a content type may name a charset other than UTF-8. */
export const OTHER_CHARSET = /charset(?!\s*=\s*"?utf-?8\b)/i;

// The engine's own message quotes the body, which must not get into the log: only the position is kept.
function readJson(text: string): { value: Json } | { where: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const position = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
    return { where: position === undefined ? '' : `, from character ${position} on` };
  }
}
