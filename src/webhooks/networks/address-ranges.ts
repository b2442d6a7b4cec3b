import { parseAddress } from './address.ts';

/** Consecutive addresses of one family, both ends included. */
export interface AddressRange {
  readonly family: 4 | 6;
  readonly first: bigint;
  readonly last: bigint;
  /** The entry as written. */
  readonly entry: string;
}

const BITS = { 4: 32, 6: 128 } as const;

/** Bits of `::ffff:0:0/96`, the block of IPv4-mapped addresses. */
const MAPPED_BITS = 96;

/** Reads one entry of a list, or says in words what is wrong with it. */
export function readRanges(entry: string): AddressRange[] | string {
  if (entry === '') return 'is empty';
  if (entry.includes('*')) return readWildcard(entry);
  if (entry.includes('/')) return readCidr(entry);
  if (entry.includes('-')) return readSpan(entry);
  const address = parseAddress(entry);
  if (address === undefined) return 'is no address';
  return [{ family: address.family, first: address.value, last: address.value, entry }];
}

/** The bits behind the prefix are ignored: `10.1.2.3/8` is `10.0.0.0/8`, as everywhere else. */
function readCidr(entry: string): AddressRange[] | string {
  const [text = '', prefix = '', ...rest] = entry.split('/');
  const address = parseAddress(text);
  if (address === undefined || rest.length > 0) return 'is no CIDR';
  const isMapped = address.family === 4 && text.includes(':');
  const bits = isMapped ? BITS[6] : BITS[address.family];
  if (!/^(0|[1-9]\d{0,2})$/.test(prefix) || Number(prefix) > bits)
    return `is no CIDR: its prefix goes from 0 to ${bits}`;
  // A mapped block is an IPv4 block; a wider one would hold mapped and other addresses, which are compared apart.
  if (isMapped && Number(prefix) < MAPPED_BITS)
    return `is no CIDR: IPv4-mapped blocks have a prefix from ${MAPPED_BITS}`;
  const hostBits = BigInt(bits - Number(prefix));
  const first = (address.value >> hostBits) << hostBits;
  return [{ family: address.family, first, last: first + (1n << hostBits) - 1n, entry }];
}

function readSpan(entry: string): AddressRange[] | string {
  const [from, to, ...rest] = entry.split('-').map((text) => parseAddress(text.trim()));
  if (from === undefined || to === undefined || rest.length > 0) return 'is no range of two addresses';
  if (from.family !== to.family) return 'is a range from IPv4 to IPv6';
  if (from.value > to.value) return 'is a range that ends before it starts';
  return [{ family: from.family, first: from.value, last: to.value, entry }];
}

/** Stars stand for whole octets at the end, so that each form is one CIDR; four of them are every address there is. */
function readWildcard(entry: string): AddressRange[] | string {
  if (entry === '*.*.*.*') return [...everything(4, entry), ...everything(6, entry)];
  const octets = entry.split('.');
  const stars = octets.filter((octet) => octet === '*').length;
  const start = parseAddress(octets.map((octet) => (octet === '*' ? '0' : octet)).join('.'));
  const isTrailing = octets.slice(octets.length - stars).every((octet) => octet === '*');
  if (start?.family !== 4 || stars === 0) return 'is no octet wildcard';
  if (!isTrailing) return 'has a wildcard in front of an octet, which no CIDR can say';
  return [{ family: 4, first: start.value, last: start.value + (1n << BigInt(8 * stars)) - 1n, entry }];
}

function everything(family: 4 | 6, entry: string): AddressRange[] {
  return [{ family, first: 0n, last: (1n << BigInt(BITS[family])) - 1n, entry }];
}
