import type { Readable } from 'node:stream';
import type { BodyAllowance } from './body-budget.ts';

export interface BodyLimits {
  readonly maxBytes: number;
  readonly allowance: BodyAllowance;
}

/** A publisher sends a body in one go; so long without a single byte is a broken connection, or somebody who holds it open. */
export const BODY_IDLE_MS = 5000;

/** Why a body was not read to its end. Fastify takes the status code from the error. */
export class BodyError extends Error {
  readonly statusCode: 400 | 408 | 413 | 503;
  constructor(statusCode: BodyError['statusCode'], message: string) {
    super(message);
    this.name = 'BodyError';
    this.statusCode = statusCode;
  }
}

/**
 * Reads a body once, to its exact bytes. It counts as it arrives, not as it was announced: a sender that announces much
 * and sends nothing holds nothing. Rejects with `BodyError`: 413 over the cap, 503 where no memory is left for it, 408
 * where it stopped arriving, 400 where the sender hung up.
 */
export function readBody(stream: Readable, contentLength: string | undefined, limits: BodyLimits): Promise<Buffer> {
  const { maxBytes, allowance } = limits;
  if (Number(contentLength) > maxBytes) return Promise.reject(new BodyError(413, 'The body is too large'));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let received = 0;
    const idle = setTimeout(() => fail(408, 'The body stopped arriving'), BODY_IDLE_MS);
    const settle = () => {
      clearTimeout(idle);
      stream.off('data', onData).off('end', onEnd).off('error', onAbort).off('close', onAbort);
    };
    const fail = (statusCode: BodyError['statusCode'], message: string) => {
      settle();
      // What still arrives is read and dropped, so that the answer gets out.
      stream.on('error', () => {}).resume();
      reject(new BodyError(statusCode, message));
    };
    const onData = (chunk: Buffer) => {
      received += chunk.length;
      if (received > maxBytes) return fail(413, 'The body is too large');
      if (!allowance.take(chunk.length)) return fail(503, 'There is no memory left for this body');
      idle.refresh();
      chunks.push(chunk);
    };
    const onEnd = () => {
      settle();
      // Always a copy: a chunk may be a view over the socket's own buffer.
      resolve(Buffer.concat(chunks, received));
    };
    const onAbort = () => fail(400, 'The sender hung up');
    stream.on('data', onData).on('end', onEnd).on('error', onAbort).on('close', onAbort);
  });
}
