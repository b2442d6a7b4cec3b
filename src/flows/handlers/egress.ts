import type { LookupAddress, LookupOptions } from 'node:dns';
import { lookup as resolve } from 'node:dns';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Network = readonly [Address, number];

/** A step requested an address that is not public and that the operator did not allow. */
export class EgressRefusedError extends Error {
  constructor(host: string, refused: readonly string[]) {
    const where = refused.map((address) => `${address} (${rangeOf(address)})`).join(', ');
    super(
      `"${host}" is at ${where}; steps reach public addresses only. ` +
        'Add the host name, the address or its CIDR to SLUICE_EGRESS_ALLOW to open it.',
    );
    this.name = 'EgressRefusedError';
  }
}

/** Decides which addresses a step may call. */
interface Egress {
  /** Throws `EgressRefusedError` if the host is an address that must not be called; `lookup` checks names. */
  checkLiteral(host: string): void;
  /** The host's addresses that can be called; throws `EgressRefusedError` if there are none. */
  permitted(host: string, addresses: readonly LookupAddress[]): LookupAddress[];
  /**
   * Replaces `dns.lookup` when a socket connects: the socket gets exactly the addresses that were checked, so that a
   * name cannot answer with a public address first and a private one later.
   */
  lookup(host: string, options: LookupOptions, callback: LookupCallback): void;
}

type LookupCallback = (
  error: NodeJS.ErrnoException | null,
  address: string | LookupAddress[],
  family?: number | undefined,
) => void;

/** `allow` contains CIDRs, addresses and host names; throws for any other entry. */
export function createEgress(allow: readonly string[]): Egress {
  const networks: Network[] = [];
  const hosts = new Set<string>();
  for (const entry of allow) {
    const network = parseNetwork(entry);
    if (network !== undefined) networks.push(network);
    else hosts.add(parseHost(entry));
  }

  const isPermitted = (address: string) => rangeOf(address) === undefined || isInside(address, networks);

  const permitted = (host: string, addresses: readonly LookupAddress[]) => {
    if (hosts.has(canonicalHost(host))) return [...addresses];
    const passed = addresses.filter(({ address }) => isPermitted(address));
    if (passed.length > 0) return passed;
    const refused = addresses.map(({ address }) => address);
    throw new EgressRefusedError(host, refused);
  };

  return {
    permitted,
    checkLiteral: (host) => {
      const address = host.replace(/^\[|\]$/g, '');
      if (ipaddr.isValid(address)) permitted(address, [{ address, family: 0 }]);
    },
    lookup: (host, options, callback) => {
      resolve(host, { ...options, all: true }, (error, addresses) => {
        if (error !== null) return callback(error, '');
        try {
          const passed = permitted(host, addresses);
          if (options.all === true) return callback(null, passed);
          callback(null, passed[0]?.address ?? '', passed[0]?.family);
        } catch (refusal) {
          callback(refusal as Error, '');
        }
      });
    },
  };
}

// Azure's host agent answers on a public-looking address: learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
const METADATA_ADDRESSES: readonly string[] = ['168.63.129.16'];
// IANA has only allocated 2000::/3 for global unicast; ipaddr.js calls every range without a name unicast, even ::/96,
// where the last four bytes are an IPv4 address.
const GLOBAL_IPV6: Network = [ipaddr.parse('2000::'), 3];

/** Why an address is not public: the name of its range; undefined if it is public. */
function rangeOf(text: string): string | undefined {
  if (METADATA_ADDRESSES.includes(text)) return 'metadata';
  const address = ipaddr.parse(text);
  const range = address.range();
  if (range !== 'unicast') return range;
  return address.kind() === 'ipv6' && !address.match([...GLOBAL_IPV6]) ? 'reserved' : undefined;
}

function isInside(text: string, networks: readonly Network[]): boolean {
  // An IPv4-mapped address reaches the IPv4 host, so entries must name that.
  const address = ipaddr.process(text);
  return networks.some(([base, bits]) => base.kind() === address.kind() && address.match(base, bits));
}

function parseNetwork(entry: string): Network | undefined {
  const [, text = '', bitsText] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(entry) ?? [];
  // ipaddr.js also reads 010.1 and 0x7f.1 as IPv4; an allow list must be unambiguous.
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return undefined;
  const address = ipaddr.parse(text);
  const maxBits = address.kind() === 'ipv4' ? 32 : 128;
  const bits = bitsText === undefined ? maxBits : Number(bitsText);
  return bits <= maxBits ? [address, bits] : undefined;
}

function parseHost(entry: string): string {
  const host = canonicalHost(entry);
  // A name that ends in a number is a mistyped address.
  if (!/^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*(?!\d+$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/.test(host)) {
    throw new Error(`egressAllow: "${entry}" is not an address, CIDR or host name`);
  }
  return host;
}

function canonicalHost(host: string): string {
  return host.toLowerCase().replace(/\.$/, '');
}
