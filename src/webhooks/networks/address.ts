import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { LRUCache } from 'lru-cache';

/** An IPv4 or IPv6 address as a number. An IPv4-mapped IPv6 address is the IPv4 address. */
interface Address {
  readonly family: 4 | 6;
  readonly value: bigint;
  /** Canonical text, without a zone. */
  readonly text: string;
}

// Parsing costs some 5 µs, and a publisher's deliveries come from few addresses.
const parsed = new LRUCache<string, Address>({ max: 10_000 });

// An IPv4-compatible address, `::1.2.3.4`: obsolete, no host has one, and ipaddr.js takes it for an IPv4-mapped one.
const IPV4_COMPATIBLE = /^::\d+\.\d+\.\d+\.\d+$/;

/**
 * Reads four decimal octets or an IPv6 address, nothing else: no octal, hexadecimal or shortened forms, which programs
 * read in different ways, and no zone. Yields undefined for anything else.
 */
export function parseAddress(text: string): Address | undefined {
  const known = parsed.get(text);
  if (known !== undefined) return known;
  // A zone holds any text of any length, and names an interface of one machine only.
  if (text.includes('%') || isIP(text) === 0 || IPV4_COMPATIBLE.test(text)) return undefined;
  const address = toAddress(ipaddr.process(text));
  parsed.set(text, address);
  return address;
}

function toAddress(address: ipaddr.IPv4 | ipaddr.IPv6): Address {
  const value = BigInt(`0x${Buffer.from(address.toByteArray()).toString('hex')}`);
  if (address instanceof ipaddr.IPv6) return { family: 6, value, text: address.toRFC5952String() };
  return { family: 4, value, text: address.toString() };
}

/** `64:ff9b::/96`: a translator writes the IPv4 address of each client into its last 32 bits. */
const NAT64 = 0x64_ff9bn << 64n;

/**
 * Who an address belongs to, as limits count: one IPv4 address, and of IPv6 the /64, of which one subscriber can use every
 * address. Any other text is its own group.
 */
export function addressGroup(text: string): string {
  const address = parseAddress(text);
  if (address === undefined || address.family === 4 || address.value >> 32n === NAT64) return address?.text ?? text;
  return `${(address.value >> 64n).toString(16).padStart(16, '0')}/64`;
}
