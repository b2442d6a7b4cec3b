import type { Delivery } from '../model/delivery.ts';
import type { Evidence } from './gate.ts';
import type { HandshakeRequest } from './schemes/handshake.ts';
import type { PreparedTrigger } from './triggers.ts';

/** A delivery as handshakes see it. */
export function handshakeRequest(
  { method, headers, path, body }: Delivery,
  { trigger, keys }: PreparedTrigger,
  { isVerified, usedPreviousKey }: Evidence,
): HandshakeRequest {
  return {
    method,
    headers,
    query: new URLSearchParams(path.split('?')[1] ?? ''),
    body,
    isVerified: isVerified === true,
    usedPreviousKey,
    keys,
    verifyToken: trigger.verifyToken,
  };
}
