import { charsetOf, textReader } from '../model/content.ts';
import { decodeForm, MAX_FORM_FIELDS, readMultipart } from '../model/form.ts';
import type { Json } from '../model/json.ts';

/** The content of a form, or why it cannot be read. */
type ReadForm = { readonly value: Json } | { readonly error: string };

const CUT = { error: 'the form has no end: it is cut, or its lines do not end with CR LF' };
const TOO_MANY = { error: `the form has more than ${MAX_FORM_FIELDS} fields` };

/** The fields of an urlencoded form, in the charset that the content type names. */
export function formFields(body: Uint8Array, contentType?: string): ReadForm {
  const charset = charsetOf(contentType);
  const read = charset === undefined || /^utf-?8$/.test(charset) ? undefined : textReader(charset);
  // An escape is one byte, and a UTF-16 character has two.
  const wide = charset?.startsWith('utf-16') === true ? (read?.(body) ?? '') : undefined;
  const fields = decodeForm(Buffer.from(wide ?? body));
  if (fields === undefined) return TOO_MANY;
  const inCharset = (bytes: string) => read?.(Buffer.from(bytes, 'latin1')) ?? toUtf8(bytes);
  const toText = wide === undefined ? inCharset : toUtf8;
  return { value: fieldsOf(fields.map(({ name, value }) => [toText(name), toText(value)])) };
}

/** Total bytes of files that are read from one form; a file beyond has no content. */
const MAX_FILE_BYTES = 1024 * 1024;

/** The text fields of a multipart form, as the signature reads them, and its files. */
export function multipartFields(body: Buffer, boundary: string): ReadForm {
  const parts = readMultipart(body, boundary);
  if (parts === undefined) return body.includes(`\r\n--${boundary}--`, 0, 'latin1') ? TOO_MANY : CUT;
  let left = MAX_FILE_BYTES;
  const pairs = parts.map(({ name, filename, type, bytes }): [string, Json] => {
    const read = filename === undefined ? textReader(charsetOf(type) ?? 'utf-8') : undefined;
    const text = read?.(bytes);
    if (text !== undefined) return [toUtf8(name), text];
    const about = { filename: toUtf8(filename ?? ''), type: toUtf8(type ?? 'application/octet-stream') };
    if (bytes.byteLength > left) return [toUtf8(name), { ...about, base64: null, bytes: bytes.byteLength }];
    left -= bytes.byteLength;
    return [toUtf8(name), { ...about, base64: bytes.toString('base64') }];
  });
  return { value: fieldsOf(pairs) };
}

/** A repeated name has an array, in the order sent. */
function fieldsOf(pairs: readonly (readonly [name: string, value: Json])[]): Json {
  const fields = new Map<string, Json[]>();
  for (const [name, value] of pairs) (fields.get(name) ?? fields.set(name, []).get(name))?.push(value);
  return Object.fromEntries(
    [...fields].map(([name, values]) => [name, values.length > 1 ? values : (values[0] ?? '')]),
  );
}

function toUtf8(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString();
}
