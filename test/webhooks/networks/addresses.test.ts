import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GateConfigurationError } from '../../../src/webhooks/gate.ts';
import { compileAddresses } from '../../../src/webhooks/networks/addresses.ts';

const FIELD = 'webhookIpAllowList';

/** An address as bytes, written and compared without the tested code. */
type Bytes = readonly number[];

const v4Bytes = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 });
// Only few leading bytes vary, so that lists and addresses match often.
const v6Bytes = fc
  .array(fc.integer({ min: 0, max: 255 }), { minLength: 14, maxLength: 14 })
  .chain((tail) =>
    fc.constantFrom([0x20, 0x01, ...tail], [0x20, 0x01, ...tail.slice(0, 3).map(() => 0), ...tail.slice(3)]),
  );

function textOf(bytes: Bytes): string {
  if (bytes.length === 4) return bytes.join('.');
  const groups = [];
  for (let i = 0; i < 16; i += 2) groups.push((((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0)).toString(16));
  return groups.join(':');
}

function mapped(bytes: Bytes): string {
  return `::ffff:${bytes.join('.')}`;
}

function compareBytes(a: Bytes, b: Bytes): number {
  for (let i = 0; i < a.length; i += 1) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

interface Entry {
  readonly text: string;
  covers(address: Bytes): boolean;
}

const sharesPrefix = (bits: number, network: Bytes) => (address: Bytes) =>
  address.length === network.length &&
  network.every((byte, i) => {
    const inByte = Math.min(8, Math.max(0, bits - 8 * i));
    return byte >> (8 - inByte) === (address[i] ?? 0) >> (8 - inByte);
  });

const sameFamily = (bytes: Bytes) => (bytes.length === 4 ? v4Bytes : v6Bytes);
const anyBytes = fc.oneof(v4Bytes, v6Bytes);

const cidr = anyBytes.chain((network) =>
  fc
    .integer({ min: 0, max: network.length * 8 })
    .map((bits): Entry => ({ text: `${textOf(network)}/${bits}`, covers: sharesPrefix(bits, network) })),
);
const mappedCidr = v4Bytes.chain((network) =>
  fc
    .integer({ min: 0, max: 32 })
    .map((bits): Entry => ({ text: `${mapped(network)}/${96 + bits}`, covers: sharesPrefix(bits, network) })),
);
const single = anyBytes.map((only): Entry => ({ text: textOf(only), covers: sharesPrefix(only.length * 8, only) }));
const span = anyBytes.chain((a) =>
  sameFamily(a).map((b): Entry => {
    const [from, to] = compareBytes(a, b) <= 0 ? [a, b] : [b, a];
    return {
      text: `${textOf(from)}-${textOf(to)}`,
      covers: (address) =>
        address.length === from.length && compareBytes(from, address) <= 0 && compareBytes(address, to) <= 0,
    };
  }),
);
const wildcard = fc.tuple(v4Bytes, fc.integer({ min: 1, max: 3 })).map(
  ([bytes, stars]): Entry => ({
    text: [...bytes.slice(0, 4 - stars), ...Array<string>(stars).fill('*')].join('.'),
    covers: sharesPrefix(8 * (4 - stars), bytes),
  }),
);
const lists = fc.array(fc.oneof(cidr, mappedCidr, single, span, wildcard), { maxLength: 40 });

describe('compileAddresses', () => {
  it('agrees with a comparison byte by byte, on random lists and on the edges of their entries', () => {
    fc.assert(
      fc.property(lists, fc.array(anyBytes, { minLength: 20, maxLength: 20 }), (list, addresses) => {
        const matcher = compileAddresses(
          list.map(({ text }) => text),
          FIELD,
        );
        for (const address of addresses) {
          const covering = list.filter((entry) => entry.covers(address)).map(({ text }) => text);
          const found = matcher.match(textOf(address));
          if (covering.length === 0) expect(found).toBeUndefined();
          else expect(covering).toContain(found);
          if (address.length === 4) expect(matcher.match(mapped(address))).toBe(found);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('finds both ends of every range and neither neighbour', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 0xfffe }), { minLength: 2, maxLength: 60 }), (numbers) => {
        const ends = [...new Set(numbers)].sort((a, b) => a - b);
        const text = (n: number) => `10.0.${n >> 8}.${n & 255}`;
        const pairs = ends.flatMap((from, i) =>
          i % 2 === 0 && ends[i + 1] !== undefined ? [[from, ends[i + 1] ?? from]] : [],
        );
        const matcher = compileAddresses(
          pairs.map(([from = 0, to = 0]) => `${text(from)}-${text(to)}`),
          FIELD,
        );
        const isCovered = (n: number) => pairs.some(([from = 0, to = 0]) => from <= n && n <= to);
        for (const n of ends.flatMap((end) => [end - 1, end, end + 1])) {
          expect(matcher.match(text(n)) !== undefined).toBe(isCovered(n));
        }
      }),
    );
  });

  it.each([
    ['192.0.2.1', '192.0.2.1', '192.0.2.2'],
    ['2001:db8::1', '2001:DB8:0:0::1', '2001:db8::2'],
    ['10.1.2.3/8', '10.255.0.1', '11.0.0.1'],
    ['192.0.2.0/32', '192.0.2.0', '192.0.2.1'],
    ['2001:db8::/32', '2001:db8:ffff::1', '2001:db9::1'],
    ['192.0.2.10-192.0.2.20', '192.0.2.20', '192.0.2.21'],
    ['192.0.2.10 - 192.0.2.20', '192.0.2.10', '192.0.2.9'],
    ['2001:db8::a-2001:db8::f', '2001:db8::c', '2001:db8::10'],
    ['10.0.*.*', '10.0.255.255', '10.1.0.0'],
    ['10.*.*.*', '10.9.8.7', '11.0.0.0'],
    ['::ffff:192.0.2.1', '192.0.2.1', '192.0.2.2'],
    ['::ffff:192.0.2.0/120', '192.0.2.77', '192.0.3.0'],
    ['192.0.2.1', '::ffff:c000:201', '::ffff:c000:202'],
    ['0.0.0.0/0', '255.255.255.255', '::1'],
    ['::/0', '2001:db8::1', '192.0.2.1'],
    [' 192.0.2.1 ', '192.0.2.1', '192.0.2.0'],
  ])('%s covers %s and not %s', (entry, inside, outside) => {
    const matcher = compileAddresses([entry], FIELD);
    expect(matcher.match(inside)).toBe(entry.trim());
    expect(matcher.match(outside)).toBeUndefined();
  });

  it.each(['0.0.0.0', '255.255.255.255', '::', '2001:db8::1', '::ffff:1.2.3.4'])('*.*.*.* covers %s', (address) => {
    expect(compileAddresses(['*.*.*.*'], FIELD).match(address)).toBe('*.*.*.*');
  });

  it.each([
    '',
    ' ',
    'github',
    '10.1',
    '10.0.0',
    '010.0.0.1',
    '0x7f.0.0.1',
    '2130706433',
    '256.0.0.1',
    '1.2.3.4.5',
    '1.2.3.4/33',
    '1.2.3.4/-1',
    '1.2.3.4/08',
    '1.2.3.4/',
    '/8',
    '1.2.3.4/8/8',
    '10.0.0.0/255.0.0.0',
    '2001:db8::/129',
    '::ffff:10.0.0.0/80',
    '::1.2.3.4',
    'fe80::1%eth0',
    '[::1]',
    '192.0.2.1:80',
    '192.0.2.9-192.0.2.1',
    '192.0.2.1-2001:db8::1',
    '192.0.2.1-9',
    '192.0.2.1-',
    '192.0.2.1-192.0.2.2-192.0.2.3',
    '10.*.0.1',
    '*.0.0.1',
    '10.0.1*.*',
    '10.*',
    '*',
    '2001:db8:*',
    'example.com',
  ])('refuses to leave out an entry that it cannot read: "%s"', (entry) => {
    const compile = () => compileAddresses(['192.0.2.1', entry], FIELD);
    expect(compile).toThrow(GateConfigurationError);
    expect(compile).toThrow(expect.objectContaining({ field: FIELD }));
    expect(compile).toThrow(`"${entry}"`);
    expect(compile).toThrow('10.0.*.*');
  });

  it.each(['', 'unknown', '10.1', '010.0.0.1', '192.0.2.1:80', 'fe80::1%eth0'])(
    'matches nothing for "%s", which is no address',
    (text) => {
      expect(compileAddresses(['*.*.*.*'], FIELD).match(text)).toBeUndefined();
    },
  );

  it('matches nothing with an empty list', () => {
    expect(compileAddresses([], FIELD).match('192.0.2.1')).toBeUndefined();
  });
});
