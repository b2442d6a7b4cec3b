import type { Json } from '../model/json.ts';

/** What a body means to expressions, or why it means nothing. */
export type ParsedBody = { readonly value: Json } | { readonly error: string };

const URL_ENCODED_FORM = 'application/x-www-form-urlencoded';

/**
 * Reads a trigger's body as a value. A content type that says JSON binds the sender to it; under any other, or none, the
 * body is JSON where it parses, else the fields of a form, else text, else `{ base64 }`. An empty body is null.
 */
export function parseBody(body: Uint8Array, contentType: string | undefined): ParsedBody {
  if (body.byteLength === 0) return { value: null };
  const mediaType = mediaTypeOf(contentType);
  const text = decodeUtf8(body);
  if (text === undefined) {
    if (saysJson(mediaType)) return { error: 'the content type says JSON and the body is not UTF-8' };
    return { value: { base64: Buffer.from(body).toString('base64') } };
  }
  const json = parseJson(text);
  if ('value' in json) return json;
  if (saysJson(mediaType)) return { error: `the content type says JSON and the body is not JSON${json.where}` };
  return { value: mediaType === URL_ENCODED_FORM ? formFields(text) : text };
}

/** Whether the content type binds the sender to JSON; under any other no body is malformed. */
export function bindsToJson(contentType: string | undefined): boolean {
  return saysJson(mediaTypeOf(contentType));
}

/** A malformed content type is no content type; parameters and case mean nothing here. */
function mediaTypeOf(contentType: string | undefined): string {
  return (contentType ?? '').split(/[;,]/, 1).join('').trim().toLowerCase();
}

function saysJson(mediaType: string): boolean {
  return mediaType === 'application/json' || /^[^\s/]+\/[^\s/]+\+json$/.test(mediaType);
}

/** A byte order mark in front is dropped. */
function decodeUtf8(body: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    return undefined;
  }
}

// The engine's own message quotes the body, which is no business of whoever reads the log: only the position is kept.
function parseJson(text: string): { value: Json } | { where: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const position = /position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1];
    return { where: position === undefined ? '' : `, from character ${position} on` };
  }
}

/** A name that is repeated holds an array, in the order sent. */
function formFields(text: string): Json {
  const fields = new Map<string, string | string[]>();
  // A leading "?" belongs to the first name; URLSearchParams would drop it.
  for (const [name, value] of new URLSearchParams(`&${text}`)) {
    const before = fields.get(name);
    fields.set(name, before === undefined ? value : [before, value].flat());
  }
  return Object.fromEntries(fields);
}
