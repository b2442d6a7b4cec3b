import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyRequest } from 'fastify';
import type { Clock } from '../model/clock.ts';
import type { Delivery } from '../model/delivery.ts';
import { compileAddresses, parseAddress } from './networks/addresses.ts';

export interface DeliveryReading {
  readonly clientAddress: ClientAddressReader;
  readonly clock: Clock;
  readonly newId: () => string;
}

/** A request up to its body. */
interface RequestHead {
  readonly peer: string;
  /** Lower-case name to value, as in a delivery. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the publisher called a valid host; `origin` is protocol and host, the beginning of a URL. */
  readonly hasHost: boolean;
  readonly origin: string;
  readonly clientIp: string;
}

export function readHead(request: FastifyRequest, clientAddress: ClientAddressReader): RequestHead {
  const peer = request.socket.remoteAddress ?? '';
  const headers = sentHeaders(request);
  const clientIp = clientAddress.read(peer, headers['x-forwarded-for']);
  const told = clientAddress.isTrustedPeer(peer) ? forwardedTo(clientIp, headers) : () => undefined;
  const host = told('x-forwarded-host') ?? headers.host ?? 'localhost';
  const protocol = /^https?$/.exec(told('x-forwarded-proto') ?? '')?.[0] ?? request.protocol;
  return { peer, headers, hasHost: HOST.test(host), origin: `${protocol}://${host}`, clientIp };
}

/** Makes a delivery of a request; `path` is the request's unless the delivery is meant for another address. */
export function toDelivery(
  request: FastifyRequest,
  services: DeliveryReading,
  { head = readHead(request, services.clientAddress), path = request.raw.url ?? '/' }: RequestParts = {},
): Delivery {
  const { headers, origin, clientIp } = head;
  return {
    id: services.newId(),
    receivedAt: services.clock.now(),
    method: request.method,
    path,
    requestUrl: `${origin}${path}`,
    headers,
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    clientIp,
  };
}

interface RequestParts {
  readonly head?: RequestHead;
  readonly path?: string;
}

/** Headers as sent, including those that a server hides; lines with the same name are joined as HTTP says. */
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

// A name, an IPv4 address, or an IPv6 address in brackets, and a port. A slash, a quote or a question mark in the host
// could pass for the beginning of what a scheme signs after it.
const HOST = /^(?:[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?$/;

/**
 * Reads what the proxy that the client called says, for requests from the operator's proxies: the value as far from
 * the header's end as the client is from the end of X-Forwarded-For; if there are fewer, the last, by the nearest
 * proxy.
 */
export function forwardedTo(clientIp: string, headers: Readonly<Record<string, string | string[] | undefined>>) {
  const addresses = () => chainOf(String(headers['x-forwarded-for'] ?? '')).map(readEntry);
  return (name: string): string | undefined => {
    const values = headers[name] === undefined ? [] : String(headers[name]).split(',');
    const at = values.length < 2 ? 0 : Math.max(0, addresses().reverse().indexOf(clientIp));
    return (values.at(-1 - at) ?? values.at(-1))?.trim();
  };
}

export interface BodyLimits {
  readonly maxBytes: number;
  readonly allowance: Pick<BodyAllowance, 'take'>;
}

/** Publishers send a body in one go; this long without a byte means a broken connection, or one that is held open. */
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
 * Reads a body once, as exact bytes. Bytes count as they arrive, not as announced: a sender that announces much and
 * sends nothing uses nothing. Rejects with `BodyError`: 413 over the cap, 503 if no memory is left, 408 if the body
 * stopped arriving, 400 if the sender hung up.
 */
export function readBody(stream: Readable, contentLength: string | undefined, limits: BodyLimits): Promise<Buffer> {
  const { maxBytes, allowance } = limits;
  if (Number(contentLength) > maxBytes) return Promise.reject(new BodyError(413, 'The body is too large'));
  return new Promise((resolve, reject) => {
    // Undefined once the body is settled. The listeners stay, because removing them costs more than a call that does
    // nothing. Later bytes are read and dropped, so that the answer gets out.
    let chunks: Buffer[] | undefined = [];
    let received = 0;
    const idle = setTimeout(() => fail(408, 'The body stopped arriving'), BODY_IDLE_MS);
    const fail = (statusCode: BodyError['statusCode'], message: string) => {
      if (chunks === undefined) return;
      chunks = undefined;
      clearTimeout(idle);
      reject(new BodyError(statusCode, message));
    };
    const onData = (chunk: Buffer) => {
      if (chunks === undefined) return;
      received += chunk.length;
      if (received > maxBytes) return fail(413, 'The body is too large');
      if (!allowance.take(chunk.length)) return fail(503, 'There is no memory left for this body');
      idle.refresh();
      chunks.push(chunk);
    };
    const onEnd = () => {
      if (chunks === undefined) return;
      const [first] = chunks;
      const body = first?.length === received && ownsItsBytes(first) ? first : Buffer.concat(chunks, received);
      chunks = undefined;
      clearTimeout(idle);
      resolve(body);
    };
    const onAbort = () => fail(400, 'The sender hung up');
    stream.on('data', onData).on('end', onEnd).on('error', onAbort).on('close', onAbort);
  });
}

/** Whether a chunk has its memory to itself; otherwise it may be a view of the socket's own buffer. */
function ownsItsBytes({ buffer, byteLength }: Buffer): boolean {
  return buffer.byteLength === byteLength;
}

/** Limits the bytes that bodies in flight hold, all together and for each client. */
interface BodyBudget {
  /** Opens an account for one body; its bytes count until it is released. */
  open(client: string): BodyAllowance;
}

export interface BodyAllowance {
  /** Takes bytes that have arrived; false if too few are left, in total or for this client. */
  take(bytes: number): boolean;
  /** Gives back all bytes that were taken. From then on, `take` yields false. */
  release(): void;
}

/** One client cannot use up the whole budget, while a publisher that delivers from one address has plenty. */
const SHARE_OF_ONE_CLIENT = 1 / 4;

export function bodyBudget(maxBytes: number): BodyBudget {
  const byClient = new Map<string, number>();
  let taken = 0;
  return {
    open(client) {
      let own = 0;
      let isReleased = false;
      return {
        take(bytes) {
          const ofClient = (byClient.get(client) ?? 0) + bytes;
          if (isReleased || taken + bytes > maxBytes || ofClient > maxBytes * SHARE_OF_ONE_CLIENT) return false;
          taken += bytes;
          own += bytes;
          byClient.set(client, ofClient);
          return true;
        },
        release() {
          if (isReleased) return;
          isReleased = true;
          taken -= own;
          const left = (byClient.get(client) ?? 0) - own;
          if (left > 0) byClient.set(client, left);
          else byClient.delete(client);
        },
      };
    },
  };
}

interface ClientAddressOptions {
  /** How many entries at the end of X-Forwarded-For were written by proxies about proxies. */
  readonly forwardedHeaderDepth: number;
  /** CIDRs or addresses of the operator's proxies. With a depth, its entry counts only if all later hops are such. */
  readonly trustedProxies: readonly string[];
}

/** Finds the address that sent a delivery. */
export interface ClientAddressReader {
  /**
   * Canonical text of the client's address: IPv4-mapped IPv6 as IPv4, without port, brackets or zone. `forwardedFor` is
   * all of X-Forwarded-For, its lines joined by commas.
   */
  read(socketPeer: string, forwardedFor: string | undefined): string;
  /** Whether to believe what the peer forwards about the request (protocol, host). */
  isTrustedPeer(socketPeer: string): boolean;
}

/** The address of a request's sender; all X-Forwarded-For lines count as one list. */
export function senderOf(
  { socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>,
  reader: Pick<ClientAddressReader, 'read'>,
): string {
  const forwardedFor = headers['x-forwarded-for'];
  const line = Array.isArray(forwardedFor) ? forwardedFor.join(',') : forwardedFor;
  return reader.read(socket.remoteAddress ?? '', line);
}

/**
 * Never yields an entry that the client could have written, as long as the depth or the list of proxies is right:
 * proxies append, so the client's entries come before the address that the first proxy saw.
 */
export function clientAddressReader({
  forwardedHeaderDepth,
  trustedProxies,
}: ClientAddressOptions): ClientAddressReader {
  if (trustedProxies.length > 0) {
    const proxies = compileAddresses(trustedProxies, 'SLUICE_TRUSTED_PROXIES');
    const isProxy = (address: string) => proxies.match(address) !== undefined;
    return {
      read(socketPeer, forwardedFor) {
        const peer = canonical(socketPeer);
        const chain = chainOf(forwardedFor);
        if (forwardedHeaderDepth === 0) return firstStranger(peer, chain, isProxy);
        const hops = [...chain.slice(-forwardedHeaderDepth).map(readEntry), peer];
        const isVouchedFor = hops.every((hop) => hop !== undefined && isProxy(hop));
        return (isVouchedFor ? entryAt(forwardedHeaderDepth, chain) : undefined) ?? peer;
      },
      isTrustedPeer: (socketPeer) => isProxy(canonical(socketPeer)),
    };
  }
  return {
    read: (socketPeer, forwardedFor) => entryAt(forwardedHeaderDepth, chainOf(forwardedFor)) ?? canonical(socketPeer),
    isTrustedPeer: () => forwardedHeaderDepth > 0,
  };
}

/** The entry before the last `depth` entries; undefined if there is none, if it is not an address, and for depth 0. */
function entryAt(depth: number, chain: readonly string[]): string | undefined {
  return depth === 0 ? undefined : readEntry(chain[chain.length - 1 - depth]);
}

/**
 * Walks from the socket to the client and stops at the first address that is not a proxy. An entry that is not an
 * address ("unknown", an obfuscated name) hides the client: then the result is the proxy that wrote it.
 */
function firstStranger(socketPeer: string, chain: readonly string[], isProxy: (address: string) => boolean): string {
  let seen = socketPeer;
  for (let index = chain.length - 1; index >= 0 && isProxy(seen); index -= 1) {
    const next = readEntry(chain[index]);
    if (next === undefined) return seen;
    seen = next;
  }
  return seen;
}

function chainOf(forwardedFor: string | undefined): string[] {
  return forwardedFor === undefined ? [] : forwardedFor.split(',');
}

/** An address, an address with a port, or one in brackets with or without a port; undefined for anything else. */
function readEntry(entry = ''): string | undefined {
  const text = entry.trim();
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text)?.[1];
  const beforePort = /^([^:]*):\d{1,5}$/.exec(text)?.[1];
  return parseAddress(withoutZone(bracketed ?? beforePort ?? text))?.text;
}

/** A socket's peer is an address already; a peer without one, as on a Unix socket, stays as it is. */
function canonical(socketPeer: string): string {
  return parseAddress(withoutZone(socketPeer))?.text ?? socketPeer;
}

function withoutZone(address: string): string {
  const zone = address.indexOf('%');
  return zone === -1 ? address : address.slice(0, zone);
}
