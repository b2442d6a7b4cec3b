import type { FastifyRequest } from 'fastify';
import type { Clock } from '../model/clock.ts';
import type { Delivery } from '../model/delivery.ts';
import type { ClientAddressReader } from './client-address.ts';

export interface DeliveryReading {
  readonly clientAddress: ClientAddressReader;
  readonly clock: Clock;
  readonly newId: () => string;
}

/** What a request brings as a delivery; `path` is its own unless the delivery is meant for another address. */
export function toDelivery(
  request: FastifyRequest,
  services: DeliveryReading,
  path = request.raw.url ?? '/',
): Delivery {
  const headers = sentHeaders(request);
  const peer = request.socket.remoteAddress ?? '';
  return {
    id: services.newId(),
    receivedAt: services.clock.now(),
    method: request.method,
    path,
    requestUrl: `${requestOrigin(request, headers, services.clientAddress.isTrustedPeer(peer))}${path}`,
    headers,
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    clientIp: services.clientAddress.read(peer, headers['x-forwarded-for']),
  };
}

/** Headers as sent, before this plugin relabelled the content type; lines of one name are joined as HTTP says. */
function sentHeaders(request: FastifyRequest): Record<string, string> {
  const headers: Record<string, string> = Object.create(null);
  const raw = request.raw.rawHeaders;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = String(raw[i]).toLowerCase();
    const value = String(raw[i + 1]);
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value;
  }
  return headers;
}

// A name, an IPv4 address, or an IPv6 address in brackets, and a port. A slash, a quote or a question mark in it could be
// the front of what a scheme signs behind the host.
const HOST = /^(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?$/;

/** Whether the host that the URL of the delivery would be made of is one. */
export function hasHost(request: FastifyRequest, clientAddress: ClientAddressReader): boolean {
  const peer = request.socket.remoteAddress ?? '';
  return HOST.test(hostOf(sentHeaders(request), clientAddress.isTrustedPeer(peer)));
}

/** What the publisher called, where a proxy of the operator's says so; else what this socket can tell. */
function requestOrigin(request: FastifyRequest, headers: Readonly<Record<string, string>>, isTrusted: boolean): string {
  const forwardedProtocol = isTrusted ? lastOf(headers['x-forwarded-proto']) : undefined;
  const protocol = forwardedProtocol === 'https' || forwardedProtocol === 'http' ? forwardedProtocol : request.protocol;
  return `${protocol}://${hostOf(headers, isTrusted)}`;
}

function hostOf(headers: Readonly<Record<string, string>>, isTrusted: boolean): string {
  const forwardedHost = isTrusted ? lastOf(headers['x-forwarded-host']) : undefined;
  return forwardedHost ?? headers.host ?? 'localhost';
}

// The last value is the one that the nearest proxy wrote.
function lastOf(value: string | undefined): string | undefined {
  return value?.split(',').at(-1)?.trim();
}
