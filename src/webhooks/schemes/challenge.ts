import { createHash, timingSafeEqual } from 'node:crypto';
import type { HandshakeAnswer } from './handshake.ts';

// What is echoed to whoever asks must not be anything that a browser could run.
const CHALLENGE = /^[A-Za-z0-9._~+/=-]{1,256}$/;

/** The challenge as plain text and as nothing else; undefined where it is no challenge. */
export function echo(challenge: unknown): HandshakeAnswer | undefined {
  if (typeof challenge !== 'string' || !CHALLENGE.test(challenge)) return undefined;
  const headers = { 'x-content-type-options': 'nosniff' };
  return { statusCode: 200, contentType: 'text/plain', body: challenge, headers };
}

/** Compares in a time that tells nothing, not even the length. */
export function isSameSecret(given: string, secret: string): boolean {
  return timingSafeEqual(sha256(given), sha256(secret));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
