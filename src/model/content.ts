/** What a message says of its body. */
export interface Declared {
  readonly contentType: string | undefined;
  /** Absent where the bytes are the content. */
  readonly contentEncoding?: string | undefined;
  /** The field that holds what a flow reads: names with dots between them, and `;base64` where that is how it is written. */
  readonly document?: string | undefined;
}

/** The content of an encoded body. */
export interface EncodedContent {
  /** Decodes the body, once however often it is asked. */
  decode(): Promise<{ readonly bytes: Buffer } | ContentProblem>;
}

/** Why a body cannot be decoded; `message` is for the publisher. */
export interface ContentProblem {
  readonly reason: 'body_too_large' | 'encoding_not_supported' | 'invalid_encoding' | 'store_unavailable';
  readonly message: string;
}

/** The codings of a Content-Encoding in the order in which they were applied, without those that change nothing. */
export function codingsIn(contentEncoding: string | undefined): readonly string[] {
  if (contentEncoding === undefined) return [];
  const names = contentEncoding.split(',').map((name) => name.trim().toLowerCase());
  return names.filter((name) => name !== '' && name !== 'identity');
}

type Transform = InstanceType<typeof import('node:stream').Transform>;

/** Undoes one coding: at once, or piece by piece. */
interface Decoder {
  readonly atOnce: (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Buffer;
  readonly stream: () => Transform;
}

// RFC 9659: no content coding needs a larger window, and a frame of a few bytes may ask for 128 MiB.
const ZSTD_WINDOW_LOG = 23;

/** Undefined where the coding is unknown, or this Node does not have it. */
export function decoderOf(coding: string, bytes: Uint8Array): Decoder | undefined {
  // Not imported: nearly no delivery needs it.
  const zlib = process.getBuiltinModule('node:zlib');
  switch (coding) {
    case 'gzip':
    case 'x-gzip':
      return { atOnce: zlib.gunzipSync, stream: zlib.createGunzip };
    case 'deflate':
      // RFC 9110 means the format of zlib; some senders leave its two bytes out.
      return isZlib(bytes)
        ? { atOnce: zlib.inflateSync, stream: zlib.createInflate }
        : { atOnce: zlib.inflateRawSync, stream: zlib.createInflateRaw };
    case 'br':
      return { atOnce: zlib.brotliDecompressSync, stream: zlib.createBrotliDecompress };
    case 'zstd': {
      // Node 22.15 and 23.8 brought it.
      if (typeof zlib.zstdDecompressSync !== 'function') return undefined;
      const params = { [zlib.constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG };
      return {
        atOnce: (given, options) => zlib.zstdDecompressSync(given, { ...options, params }),
        stream: () => zlib.createZstdDecompress({ params }),
      };
    }
    default:
      return undefined;
  }
}

function isZlib([method = 0, flags = 0]: Uint8Array): boolean {
  return method % 16 === 8 && (method * 256 + flags) % 31 === 0;
}

// As much as the largest cap of a body: what is stored was read under the cap of its time.
export const LARGEST_BODY_BYTES = 268_435_456;

/**
 * The content of a stored body. What cannot be decoded is its own content: no such delivery is accepted, so it came before the
 * service read encodings, and its run reads it as before.
 */
export function contentOf(
  body: Uint8Array,
  contentEncoding: string | undefined,
  maxBytes = LARGEST_BODY_BYTES,
): Uint8Array {
  let content = body;
  try {
    for (const coding of body.byteLength === 0 ? [] : codingsIn(contentEncoding).toReversed()) {
      const decoder = decoderOf(coding, content);
      if (decoder === undefined) return body;
      content = decoder.atOnce(content, { maxOutputLength: maxBytes });
    }
  } catch {
    return body;
  }
  return content;
}

/** Lower case; undefined where the content type names none. */
export function charsetOf(contentType: string | undefined): string | undefined {
  const [, quoted, bare] = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s;",]+))/i.exec(contentType ?? '') ?? [];
  return (quoted ?? bare)?.trim().toLowerCase();
}

/** Undefined if the bytes are not valid in the charset. */
type ReadText = (bytes: Uint8Array) => string | undefined;

/** How text of a charset is read; undefined where the charset is unknown. */
export function textReader(charset: string): ReadText | undefined {
  // A byte order mark says which of the two it is.
  if (charset === 'utf-16') return (bytes) => textReader(isBigEndian(bytes) ? 'utf-16be' : 'utf-16le')?.(bytes);
  try {
    const decoder = new TextDecoder(charset, { fatal: true });
    return decoder.encoding === 'windows-1252' ? decodeWindows1252 : (bytes) => decodeWith(decoder, bytes);
  } catch {
    return undefined;
  }
}

function decodeWith(decoder: InstanceType<typeof TextDecoder>, bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

const isBigEndian = ([first, second]: Uint8Array) => first === 0xfe && second === 0xff;

// Bytes 80 to 9F as the WHATWG's index has them. Some versions of Node decode windows-1252 as ISO 8859-1.
const WINDOWS_1252 = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ';

function decodeWindows1252(bytes: Uint8Array): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  return text.replace(/[\u0080-\u009f]/g, (character) => WINDOWS_1252.charAt(character.charCodeAt(0) - 0x80));
}
