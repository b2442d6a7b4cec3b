import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { describe, expect, it } from 'vitest';
import { createEgress, EgressRefusedError } from '../../../src/flows/handlers/egress.ts';

const at = (...addresses: string[]) => addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

const passed = (allow: string[], addresses: string[], host = 'api.example.com') =>
  createEgress(allow)
    .permitted(host, at(...addresses))
    .map(({ address }) => address);

const refusedRows = [
  ['loopback', '127.0.0.1'],
  ['all of loopback', '127.200.3.4'],
  ['IPv6 loopback', '::1'],
  ['private', '10.1.2.3'],
  ['private', '172.31.255.255'],
  ['private', '192.168.0.1'],
  ['link-local, where cloud metadata is', '169.254.169.254'],
  ['IPv6 link-local', 'fe80::1'],
  ['unique-local', 'fd00:ec2::254'],
  ['carrier-grade NAT', '100.100.100.200'],
  ['unspecified', '0.0.0.0'],
  ['IPv6 unspecified', '::'],
  ['broadcast', '255.255.255.255'],
  ['multicast', '224.0.0.251'],
  ['IPv6 multicast', 'ff02::1'],
  ['reserved', '240.0.0.1'],
  ['benchmarking', '198.18.0.1'],
  ['documentation', '192.0.2.1'],
  ['IETF protocols', '192.0.0.192'],
  ["a cloud's host agent", '168.63.129.16'],
  ['IPv4-mapped', '::ffff:127.0.0.1'],
  ['IPv4-mapped, written in hex', '::ffff:a00:1'],
  ['IPv4-mapped public', '::ffff:8.8.8.8'],
  ['IPv4-compatible', '::7f00:1'],
  ['NAT64-embedded', '64:ff9b::7f00:1'],
  ['locally assigned NAT64', '64:ff9b:1::7f00:1'],
  ['IPv4-translated', '::ffff:0:127.0.0.1'],
  ['6to4', '2002:7f00:1::'],
  ['Teredo', '2001:0:1::'],
  ['site-local', 'fec0::1'],
  ['not allocated', '4000::1'],
] as const;

describe('egress', () => {
  it.each(refusedRows)('refuses %s: %s', (_what, address) => {
    expect(() => passed([], [address])).toThrow(EgressRefusedError);
  });

  it.each(['8.8.8.8', '172.32.0.1', '100.128.0.1', '2606:4700::1111', '2a00:1450::1'])(
    'passes the public %s',
    (address) => {
      expect(passed([], [address])).toEqual([address]);
    },
  );

  it('names host, address, range and the setting', () => {
    expect(() => passed([], ['10.0.0.5'], 'db.internal')).toThrow(
      '"db.internal" is at 10.0.0.5 (private); steps reach public addresses only. ' +
        'Add the host name, the address or its CIDR to SLUICE_EGRESS_ALLOW to open it.',
    );
  });

  it('leaves only the addresses of a name that may be called', () => {
    expect(passed([], ['10.0.0.5', '8.8.8.8', '::1'])).toEqual(['8.8.8.8']);
  });

  it.each([
    ['a CIDR', '10.0.0.0/8', '10.9.9.9', '192.168.0.1'],
    ['one address', '10.0.0.5', '10.0.0.5', '10.0.0.6'],
    ['an IPv6 CIDR', 'fd00::/8', 'fd12::1', 'fe80::1'],
    ['an IPv4 CIDR, for an IPv4-mapped address too', '127.0.0.0/8', '::ffff:127.0.0.1', '::ffff:10.0.0.1'],
  ])('opens %s and nothing else', (_what, entry, inside, outside) => {
    expect(passed([entry], [inside])).toEqual([inside]);
    expect(() => passed([entry], [outside])).toThrow(EgressRefusedError);
  });

  it('opens a host name with all of its addresses, in any case and with a dot at its end', () => {
    expect(passed(['db.internal'], ['10.0.0.5', '::1'], 'DB.Internal.')).toEqual(['10.0.0.5', '::1']);
    expect(() => passed(['db.internal'], ['10.0.0.5'], 'evil-db.internal')).toThrow(EgressRefusedError);
    expect(() => passed(['db.internal'], ['10.0.0.5'], 'x.db.internal')).toThrow(EgressRefusedError);
  });

  it('checks a host that is an address without a look-up', () => {
    const egress = createEgress(['127.0.0.0/8']);
    expect(() => egress.checkLiteral('127.0.0.1')).not.toThrow();
    expect(() => egress.checkLiteral('api.example.com')).not.toThrow();
    expect(() => egress.checkLiteral('[::1]')).toThrow(EgressRefusedError);
    expect(() => egress.checkLiteral('10.0.0.1')).toThrow(EgressRefusedError);
  });

  it.each([
    '',
    '10.0.0',
    '10.0.0.0/33',
    '10.0.0.0/8/8',
    '010.0.0.1',
    'fd00::/129',
    'http://a',
    'a b',
    '*.internal',
    '1.2.3.4.5',
  ])('refuses an allow list with %j', (entry) => {
    expect(() => createEgress([entry])).toThrow('is not an address, CIDR or host name');
  });

  it('passes no IPv6 address outside of 2000::/3 without being told to', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const isGlobal = ipaddr.parse(text).match(ipaddr.parseCIDR('2000::/3'));
        fc.pre(!isGlobal);
        expect(() => passed([], [text])).toThrow(EgressRefusedError);
      }),
    );
  });

  it('refuses a name that the resolver answers with a loopback address', async () => {
    const error = await new Promise((resolve) => createEgress([]).lookup('localhost', {}, resolve));
    expect(error).toBeInstanceOf(EgressRefusedError);
  });

  it.each([[{ all: true }], [{}]])(
    'hands the checked addresses to the socket in the form it asks for: %j',
    async (options) => {
      const found = await new Promise((resolve, reject) =>
        createEgress(['localhost']).lookup('localhost', options, (error, address) =>
          error ? reject(error) : resolve(address),
        ),
      );
      const addresses = Array.isArray(found) ? found.map(({ address }) => address) : [found];
      for (const address of addresses) expect(ipaddr.parse(address).range()).toBe('loopback');
      expect(Array.isArray(found)).toBe('all' in options);
    },
  );
});
