import type { IncomingMessage } from 'node:http';
import { parseAddress } from './networks/address.ts';
import { compileAddresses } from './networks/address-matcher.ts';

interface ClientAddressOptions {
  /** How many entries at the end of X-Forwarded-For were written by proxies about proxies. */
  readonly forwardedHeaderDepth: number;
  /**
   * CIDRs or addresses of the operator's own proxies. With a depth the entry that it names counts only where every hop
   * behind it is one of them.
   */
  readonly trustedProxies: readonly string[];
}

/** Tells who sent a delivery. */
export interface ClientAddressReader {
  /**
   * Canonical text of the client's address: IPv4-mapped IPv6 as IPv4, without port, brackets or zone. `forwardedFor` is
   * all of X-Forwarded-For, its lines joined by commas.
   */
  read(socketPeer: string, forwardedFor: string | undefined): string;
  /** Whether what the peer forwards about the request (protocol, host) may be believed. */
  isTrustedPeer(socketPeer: string): boolean;
}

/** The address of the sender of a request, X-Forwarded-For taken as one list however many lines it came in. */
export function senderOf(
  { socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>,
  reader: Pick<ClientAddressReader, 'read'>,
): string {
  return reader.read(socket.remoteAddress ?? '', [headers['x-forwarded-for']].flat().join(','));
}

/**
 * Never yields an entry that the client could have written, as long as the depth or the list of proxies is right: a
 * proxy appends, so that what the client wrote comes before what the first proxy saw.
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

/** The entry in front of the last `depth`; undefined where there is none, where it is not an address, and for depth 0. */
function entryAt(depth: number, chain: readonly string[]): string | undefined {
  return depth === 0 ? undefined : readEntry(chain[chain.length - 1 - depth]);
}

/**
 * Walks from the socket to the client and stops at the first address that is not a proxy. What a proxy did not write as an
 * address ("unknown", an obfuscated name) hides the client: then the proxy that wrote it is as far as one can see.
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

/** What a socket says is an address already; a peer without one, as on a Unix socket, stays as it is. */
function canonical(socketPeer: string): string {
  return parseAddress(withoutZone(socketPeer))?.text ?? socketPeer;
}

function withoutZone(address: string): string {
  const zone = address.indexOf('%');
  return zone === -1 ? address : address.slice(0, zone);
}
