import type { FastifyReply, FastifyRequest } from 'fastify';

/** Nothing may be loaded, framed or posted from an answer; a page adds what it needs. */
export const STRICT_CSP = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SECURITY_HEADERS = {
  'content-security-policy': STRICT_CSP,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  // No other site may embed an answer, not even as an image: what it holds is for the operator alone.
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

/** An `onRequest` hook, so that refusals carry the headers too. */
export async function setSecurityHeaders(_request: FastifyRequest, reply: FastifyReply): Promise<void> {
  reply.headers(SECURITY_HEADERS);
}
