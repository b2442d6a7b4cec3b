import { decodeForm, decodeMultipart, type FormField, URL_ENCODED_FORM } from '../../model/form.ts';
import type { Json } from '../../model/json.ts';
import type { BodyField } from './spec.ts';

/** Reads single fields of a body, which is parsed at the first question; undefined where a field is not there. */
export type BodyReader = (field: BodyField) => string | undefined;

/** A header's value; own names only, so that `constructor` is not taken for a header. */
export function headerOf(headers: Readonly<Record<string, string>>, name: string): string | undefined {
  const key = name.toLowerCase();
  return Object.hasOwn(headers, key) ? headers[key] : undefined;
}

/** The media type without parameters, lower case; empty where none was sent. */
export function mediaTypeOf(headers: Readonly<Record<string, string>>): string {
  return (headerOf(headers, 'content-type') ?? '').split(';', 1).join('').trim().toLowerCase();
}

export function bodyReader(headers: Readonly<Record<string, string>>, body: Buffer): BodyReader {
  let read: BodyReader | undefined;
  return (field) => {
    read ??= openBody(headers, body);
    return read(field);
  };
}

function openBody(headers: Readonly<Record<string, string>>, body: Buffer): BodyReader {
  const mediaType = mediaTypeOf(headers);
  if (mediaType === URL_ENCODED_FORM) return formReader(decodeForm(body));
  if (mediaType === 'multipart/form-data') {
    const boundary = boundaryOf(headerOf(headers, 'content-type') ?? '');
    return formReader(boundary === undefined ? undefined : decodeMultipart(body, boundary));
  }
  const json = parseJson(body);
  return (field) => textOf(valueAt(json, field.path));
}

function formReader(fields: readonly FormField[] = []): BodyReader {
  return ({ formField }) => fields.find((field) => field.name === formField)?.value;
}

// RFC 2046: at most 70 characters, quoted or not.
function boundaryOf(contentType: string): string | undefined {
  const match = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType);
  return match?.[1] ?? match?.[2];
}

/** The body as JSON; undefined where it is none. */
export function parseJson(body: Buffer): Json | undefined {
  try {
    return JSON.parse(body.toString('utf8')) as Json;
  } catch {
    // Other bytes have no fields: the caller then misses the one it needs, and says so.
    return undefined;
  }
}

function valueAt(json: Json | undefined, path: readonly string[]): Json | undefined {
  let value = json;
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

export function isObject(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
}
