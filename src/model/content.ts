/** Headers and settings that describe a body. */
export interface Declared {
  readonly contentType: string | undefined;
  /** Absent if the bytes are the content. */
  readonly contentEncoding?: string | undefined;
  /** The field that a flow reads: names separated by dots, followed by `;base64` if it is encoded so. */
  readonly document?: string | undefined;
}

/** The content of an encoded body. */
export interface EncodedContent {
  /** Decodes the body, at most once, however often it is called. */
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

/** Decodes one coding: at once, or piece by piece. */
interface Decoder {
  readonly atOnce: (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Buffer;
  readonly stream: () => Transform;
}

// RFC 9659: no content coding needs a larger window, and a frame of a few bytes can ask for 128 MiB.
const ZSTD_WINDOW_LOG = 23;

/** Undefined if the coding is unknown or missing in this Node. */
export function decoderOf(coding: string, bytes: Uint8Array): Decoder | undefined {
  // Not imported: almost no delivery needs it.
  const zlib = process.getBuiltinModule('node:zlib');
  switch (coding) {
    case 'gzip':
    case 'x-gzip':
      return { atOnce: zlib.gunzipSync, stream: zlib.createGunzip };
    case 'deflate':
      // In RFC 9110 this is the zlib format; some senders leave out its two bytes.
      return isZlib(bytes)
        ? { atOnce: zlib.inflateSync, stream: zlib.createInflate }
        : { atOnce: zlib.inflateRawSync, stream: zlib.createInflateRaw };
    case 'br':
      return { atOnce: zlib.brotliDecompressSync, stream: zlib.createBrotliDecompress };
    case 'zstd': {
      // New in Node 22.15 and 23.8.
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

// The largest cap of a body: a stored body was read under the cap of its time.
export const LARGEST_BODY_BYTES = 268_435_456;

/**
 * The content of a stored body, or the body itself if it cannot be decoded: such deliveries are refused today, so it
 * arrived before the service decoded bodies, and its run reads it as before.
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

/** In lower case; undefined if the content type names none. */
export function charsetOf(contentType: string | undefined): string | undefined {
  const [, quoted, bare] = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s;",]+))/i.exec(contentType ?? '') ?? [];
  return (quoted ?? bare)?.trim().toLowerCase();
}

/** Yields undefined if the bytes are not valid in the charset. */
type ReadText = (bytes: Uint8Array) => string | undefined;

/** Reads text of a charset; undefined if the charset is unknown. */
export function textReader(charset: string): ReadText | undefined {
  // A byte order mark decides between the two.
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

// Bytes 80 to 9F in the WHATWG's index. Some versions of Node decode windows-1252 as ISO 8859-1.
const WINDOWS_1252 = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ';

function decodeWindows1252(bytes: Uint8Array): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  return text.replace(/[\u0080-\u009f]/g, (character) => WINDOWS_1252.charAt(character.charCodeAt(0) - 0x80));
}
