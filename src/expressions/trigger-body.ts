import { decodeForm, MAX_FORM_FIELDS, URL_ENCODED_FORM } from '../model/form.ts';
import { isNestedDeeper, type Json, keepExactNumbers } from '../model/json.ts';
import { ConversionError, MAX_DEPTH } from './values.ts';

/** What a body means to expressions, or why it means nothing. */
type ParsedBody = { readonly value: Json } | { readonly error: string };

/**
 * Reads a trigger's body as a value. If the content type says JSON, the body must be JSON. With any other content type,
 * or none, the body is JSON if it parses, otherwise form fields, otherwise text, otherwise `{ base64 }`. An empty body
 * is null. A body that exceeds the limits of nesting or form fields is an error only for expressions that read it; it
 * is stored and forwarded unchanged. Numbers that a double would change are kept exact unless they are only inspected.
 */
export function parseBody(
  body: Uint8Array,
  contentType: string | undefined,
  numbers: 'exact' | 'doubles' = 'exact',
): ParsedBody {
  if (body.byteLength === 0) return { value: null };
  const mediaType = mediaTypeOf(contentType);
  const text = decodeUtf8(body);
  if (text === undefined) {
    return saysJson(mediaType) ? { error: NOT_UTF8 } : { value: { base64: Buffer.from(body).toString('base64') } };
  }
  const json = readJson(text);
  if ('value' in json) {
    if (isNestedDeeper(text, MAX_DEPTH)) return { error: `the body is nested deeper than ${MAX_DEPTH} levels` };
    return { value: numbers === 'exact' ? keepExactNumbers(json.value, text) : json.value };
  }
  if (saysJson(mediaType)) return { error: notJson(json.where) };
  return mediaType === URL_ENCODED_FORM ? formFields(text) : { value: text };
}

/** A larger body is not read for search keys alone, and the numbers of a larger one are not read exactly. */
const MAX_KEYED_BYTES = 64 * 1024;

/**
 * The body of a delivery in progress; each fact about it is computed once. The JSON check parses it, and search keys
 * read the parsed value.
 */
export class ArrivingBody {
  readonly #bytes: Uint8Array;
  readonly #contentType: string | undefined;
  #json: { readonly text: string; readonly value: Json } | undefined;
  #parsed: ParsedBody | undefined;
  #exact: ParsedBody | undefined;

  constructor(bytes: Uint8Array, contentType: string | undefined) {
    this.#bytes = bytes;
    this.#contentType = contentType;
  }

  /** Whether the content type says JSON and the body is not. */
  isMalformed(): boolean {
    if (this.#bytes.byteLength === 0 || !saysJson(mediaTypeOf(this.#contentType))) return false;
    const text = decodeUtf8(this.#bytes);
    const json = text === undefined ? { where: '' } : readJson(text);
    if (text === undefined || 'where' in json) return true;
    this.#json = { text, value: json.value };
    return false;
  }

  /** As expressions read it, where that costs little; how deep it is nested does not matter. */
  parsed(): ParsedBody {
    this.#parsed ??= this.#parse();
    return this.#parsed;
  }

  /** As `parsed`; throws `ConversionError` where it cannot be read. */
  value(): Json {
    const parsed = this.parsed();
    if ('error' in parsed) throw new ConversionError(`the body cannot be read: ${parsed.error}`);
    return parsed.value;
  }

  /** As `value`, however large it is and with every number exact: for what decides about the delivery. */
  exactValue(): Json {
    if (this.#bytes.byteLength <= MAX_KEYED_BYTES) return this.value();
    this.#exact ??= parseBody(this.#bytes, this.#contentType);
    if ('error' in this.#exact) throw new ConversionError(`the body cannot be read: ${this.#exact.error}`);
    return this.#exact.value;
  }

  #parse(): ParsedBody {
    const isLarge = this.#bytes.byteLength > MAX_KEYED_BYTES;
    if (this.#json === undefined) {
      if (!isLarge) return parseBody(this.#bytes, this.#contentType);
      return { error: `the body has ${this.#bytes.byteLength} bytes, and ${MAX_KEYED_BYTES} are read` };
    }
    const { text, value } = this.#json;
    return { value: isLarge ? value : keepExactNumbers(value, text) };
  }
}

/** Whether the content type says JSON and the body is not. */
export function isMalformedJson(body: Uint8Array, contentType: string | undefined): boolean {
  if (body.byteLength === 0 || !saysJson(mediaTypeOf(contentType))) return false;
  const text = decodeUtf8(body);
  return text === undefined || 'where' in readJson(text);
}

const NOT_UTF8 = 'the content type says JSON and the body is not UTF-8';

function notJson(where: string): string {
  return `the content type says JSON and the body is not JSON${where}`;
}

/** A malformed content type counts as missing; parameters and case mean nothing here. */
function mediaTypeOf(contentType: string | undefined): string {
  return (contentType ?? '').split(/[;,]/, 1).join('').trim().toLowerCase();
}

function saysJson(mediaType: string): boolean {
  return mediaType === 'application/json' || /^[^\s/]+\/[^\s/]+\+json$/.test(mediaType);
}

// It keeps nothing from one text to the next.
const UTF_8 = new TextDecoder('utf-8', { fatal: true });

/** Undefined for what is not UTF-8; a byte order mark in front is dropped. */
export function decodeUtf8(body: Uint8Array): string | undefined {
  try {
    return UTF_8.decode(body);
  } catch {
    return undefined;
  }
}

// The engine's own message quotes the body, which does not belong in the log: only the position is kept.
function readJson(text: string): { value: Json } | { where: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const position = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
    return { where: position === undefined ? '' : `, from character ${position} on` };
  }
}

/** A name that is repeated holds an array, in the order sent. */
function formFields(text: string): ParsedBody {
  const decoded = decodeForm(Buffer.from(text));
  if (decoded === undefined) return { error: `the form has more than ${MAX_FORM_FIELDS} fields` };
  const fields = new Map<string, string | string[]>();
  for (const { name, value } of decoded) {
    const key = toUtf8(name);
    const before = fields.get(key);
    if (before === undefined) fields.set(key, toUtf8(value));
    else if (typeof before === 'string') fields.set(key, [before, toUtf8(value)]);
    else before.push(toUtf8(value));
  }
  return { value: Object.fromEntries(fields) };
}

function toUtf8(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
