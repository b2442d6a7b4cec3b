import type { SignatureEncoding } from '../../model/manifest.ts';
import type { SpecAlgorithm } from './spec.ts';

/** How long a signature is. */
export const DIGEST_BYTES: Readonly<Record<SpecAlgorithm, number>> = {
  sha1: 20,
  sha256: 32,
  sha384: 48,
  sha512: 64,
  ed25519: 64,
};

const HEX = /^[0-9a-f]*$/i;

export function encodeDigest(digest: Buffer, encoding: SignatureEncoding): string {
  switch (encoding) {
    case 'hexLower':
      return digest.toString('hex');
    case 'hexUpper':
      return digest.toString('hex').toUpperCase();
    case 'base64':
      return digest.toString('base64');
    case 'base64Url':
      return digest.toString('base64url');
  }
}

/**
 * The bytes that a text stands for, or undefined where it is not exactly one digest: node's own decoders skip or stop at
 * what they do not know, so that a right digest with something behind it would pass. Hex may be of either case.
 */
export function decodeDigest(text: string, encoding: SignatureEncoding, byteCount: number): Buffer | undefined {
  switch (encoding) {
    case 'hexLower':
    case 'hexUpper':
      return text.length === byteCount * 2 && HEX.test(text) ? Buffer.from(text, 'hex') : undefined;
    case 'base64':
      return decodeBase64(text, byteCount);
    case 'base64Url':
      return decodeBase64Url(text, byteCount);
  }
}

function decodeBase64(text: string, byteCount: number): Buffer | undefined {
  if (text.length !== Math.ceil(byteCount / 3) * 4) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === byteCount && bytes.toString('base64') === text ? bytes : undefined;
}

/** Publishers send base64url without padding, and some with: both are canonical, nothing between them is. */
function decodeBase64Url(text: string, byteCount: number): Buffer | undefined {
  const padding = '='.repeat((3 - (byteCount % 3)) % 3);
  if (text.length > Math.ceil(byteCount / 3) * 4) return undefined;
  const unpadded = padding !== '' && text.endsWith(padding) ? text.slice(0, -padding.length) : text;
  const bytes = Buffer.from(unpadded, 'base64url');
  return bytes.length === byteCount && bytes.toString('base64url') === unpadded ? bytes : undefined;
}
