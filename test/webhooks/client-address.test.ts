import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clientAddressReader, forwardedTo } from '../../src/webhooks/read-delivery.ts';

const byDepth = (forwardedHeaderDepth: number) => clientAddressReader({ forwardedHeaderDepth, trustedProxies: [] });
const byProxies = (...trustedProxies: string[]) => clientAddressReader({ forwardedHeaderDepth: 0, trustedProxies });

const octet = fc.integer({ min: 1, max: 254 });
const address = fc.oneof(
  fc.tuple(octet, octet).map(([a, b]) => `203.0.${a}.${b}`),
  octet.map((a) => `2001:db8::${a.toString(16)}`),
);
const proxy = fc.tuple(octet, octet).map(([a, b]) => `10.0.${a}.${b}`);
/** Any header that a client may send, including likely attacks. */
const forged = fc.option(
  fc
    .array(
      fc.oneof(address, proxy, fc.string({ maxLength: 12 }), fc.constantFrom('', 'unknown', '127.0.0.1', ',', '::1')),
      {
        maxLength: 6,
      },
    )
    .map((entries) => entries.join(', ')),
  { nil: undefined },
);

/** The header after each proxy appended the address that it saw. */
function throughProxies(sent: string | undefined, client: string, proxies: readonly string[]) {
  const seen = [client, ...proxies.slice(0, -1)];
  const appended = seen.join(', ');
  return { forwardedFor: sent === undefined ? appended : `${sent}, ${appended}`, peer: proxies.at(-1) ?? client };
}

describe('client address', () => {
  it('is the client’s own, never an entry that it wrote, when the depth is one less than the proxies in front', () => {
    fc.assert(
      fc.property(forged, address, fc.array(proxy, { minLength: 2, maxLength: 4 }), (sent, client, proxies) => {
        const { forwardedFor, peer } = throughProxies(sent, client, proxies);
        expect(byDepth(proxies.length - 1).read(peer, forwardedFor)).toBe(client);
      }),
    );
  });

  it('is the client’s own, never an entry that it wrote, when the proxies are listed, however many there are', () => {
    fc.assert(
      fc.property(forged, address, fc.array(proxy, { maxLength: 4 }), (sent, client, proxies) => {
        const { forwardedFor, peer } = throughProxies(sent, client, proxies);
        const header = proxies.length === 0 ? sent : forwardedFor;
        expect(byProxies('10.0.0.0/8').read(peer, header)).toBe(client);
      }),
    );
  });

  it('ignores the header at depth 0', () => {
    expect(byDepth(0).read('198.51.100.7', '192.0.2.1, 192.0.2.2')).toBe('198.51.100.7');
  });

  it.each([
    [1, '192.0.2.1, 192.0.2.2', '192.0.2.1'],
    [1, '192.0.2.0, 192.0.2.1, 192.0.2.2', '192.0.2.1'],
    [2, '192.0.2.0,192.0.2.1,192.0.2.2', '192.0.2.0'],
    [1, '192.0.2.1', '198.51.100.7'],
    [3, '192.0.2.0, 192.0.2.1, 192.0.2.2', '198.51.100.7'],
    [1, undefined, '198.51.100.7'],
    [1, '', '198.51.100.7'],
    [1, ',', '198.51.100.7'],
    [1, 'unknown, 192.0.2.2', '198.51.100.7'],
    [1, '_hidden, 192.0.2.2', '198.51.100.7'],
    [1, '192.0.2.300, 192.0.2.2', '198.51.100.7'],
    [1, '010.0.0.1, 192.0.2.2', '198.51.100.7'],
    [1, '192.0.2.1:4711, 192.0.2.2', '192.0.2.1'],
    [1, '192.0.2.1:, 192.0.2.2', '198.51.100.7'],
    [1, '[2001:DB8::1]:443, 192.0.2.2', '2001:db8::1'],
    [1, '[2001:db8::1], 192.0.2.2', '2001:db8::1'],
    [1, '[2001:db8::1, 192.0.2.2', '198.51.100.7'],
    [1, '2001:db8:0:0::1, 192.0.2.2', '2001:db8::1'],
    [1, 'fe80::1%eth0, 192.0.2.2', 'fe80::1'],
    [1, '::ffff:192.0.2.1, 192.0.2.2', '192.0.2.1'],
    [1, '[::ffff:192.0.2.1]:80, 192.0.2.2', '192.0.2.1'],
  ])('at depth %i of "%s" is %s', (depth, forwardedFor, expected) => {
    expect(byDepth(depth).read('198.51.100.7', forwardedFor)).toBe(expected);
  });

  it.each([
    ['192.0.2.1', '10.0.0.1', '192.0.2.1'],
    ['192.0.2.1, 10.0.0.2', '10.0.0.1', '192.0.2.1'],
    ['127.0.0.1, 192.0.2.1, 10.0.0.2', '10.0.0.1', '192.0.2.1'],
    ['127.0.0.1', '192.0.2.9', '192.0.2.9'],
    ['127.0.0.1, 10.0.0.2', '192.0.2.9', '192.0.2.9'],
    ['127.0.0.1, unknown, 10.0.0.2', '10.0.0.1', '10.0.0.2'],
    ['10.0.0.3, 10.0.0.2', '10.0.0.1', '10.0.0.3'],
    [undefined, '10.0.0.1', '10.0.0.1'],
    ['192.0.2.1', '::ffff:10.0.0.1', '192.0.2.1'],
  ])('with proxies in 10.0.0.0/8, "%s" from the peer %s, is %s', (forwardedFor, peer, expected) => {
    expect(byProxies('10.0.0.0/8').read(peer, forwardedFor)).toBe(expected);
  });

  it.each([
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:0DB8::0001', '2001:db8::1'],
    ['fe80::1%en0', 'fe80::1'],
    ['', ''],
  ])('of the socket peer "%s" is "%s"', (peer, expected) => {
    expect(byDepth(0).read(peer, undefined)).toBe(expected);
  });

  it.each([
    // Two proxies, depth 1: 10.0.0.1 connects, and wrote that 10.0.0.2 called it.
    ['192.0.2.1, 10.0.0.2', '10.0.0.1', '192.0.2.1'],
    ['127.0.0.1, 192.0.2.1, 10.0.0.2', '10.0.0.1', '192.0.2.1'],
    // The client calls the inner proxy or the service directly, and writes the rest itself.
    ['127.0.0.1, 192.0.2.9', '10.0.0.1', '10.0.0.1'],
    ['127.0.0.1, 10.0.0.2', '192.0.2.9', '192.0.2.9'],
    ['127.0.0.1, unknown', '10.0.0.1', '10.0.0.1'],
    ['10.0.0.2', '10.0.0.1', '10.0.0.1'],
    [undefined, '10.0.0.1', '10.0.0.1'],
  ])('with a depth of 1 and proxies in 10.0.0.0/8, "%s" from the peer %s, is %s', (forwardedFor, peer, expected) => {
    const both = clientAddressReader({ forwardedHeaderDepth: 1, trustedProxies: ['10.0.0.0/8'] });
    expect(both.read(peer, forwardedFor)).toBe(expected);
  });

  it('is never an entry that no proxy of the operator’s wrote, whatever the depth, where the proxies are listed', () => {
    const depth = fc.integer({ min: 0, max: 4 });
    fc.assert(
      fc.property(forged, address, fc.array(proxy, { maxLength: 4 }), depth, (sent, client, proxies, configured) => {
        const { forwardedFor, peer } = throughProxies(sent, client, proxies);
        const header = proxies.length === 0 ? sent : forwardedFor;
        const both = clientAddressReader({ forwardedHeaderDepth: configured, trustedProxies: ['10.0.0.0/8'] });
        expect([client, ...proxies]).toContain(both.read(peer, header));
      }),
    );
  });

  it('lets only a proxy of the operator’s say how the publisher called', () => {
    expect(byDepth(0).isTrustedPeer('10.0.0.1')).toBe(false);
    expect(byDepth(1).isTrustedPeer('10.0.0.1')).toBe(true);
    expect(byProxies('10.0.0.0/8').isTrustedPeer('::ffff:10.0.0.1')).toBe(true);
    expect(byProxies('10.0.0.0/8').isTrustedPeer('192.0.2.1')).toBe(false);
  });
});

describe('protocol and host that proxies forward', () => {
  const toldTo = (client: string, headers: Record<string, string>) => {
    const told = forwardedTo(client, headers);
    return [told('x-forwarded-proto'), told('x-forwarded-host')];
  };

  it('are those that the client called, whatever it forged, where each proxy appends', () => {
    fc.assert(
      fc.property(forged, address, fc.array(proxy, { minLength: 1, maxLength: 4 }), (sent, client, proxies) => {
        const { forwardedFor, peer } = throughProxies(sent, client, proxies);
        const append = (own: string, between: string) =>
          [...(sent === undefined ? [] : [sent]), own, ...proxies.slice(1).map(() => between)].join(', ');
        const headers = {
          'x-forwarded-for': forwardedFor,
          'x-forwarded-proto': append('https', 'http'),
          'x-forwarded-host': append('hooks.example.com', 'inner.internal'),
        };
        const found = byProxies('10.0.0.0/8').read(peer, forwardedFor);
        expect(toldTo(found, headers)).toEqual(['https', 'hooks.example.com']);
      }),
    );
  });

  it.each([
    ['one value, which the nearest proxy set', '192.0.2.1, 10.0.0.2', 'https', 'https'],
    ['fewer values than addresses', '192.0.2.1, 10.0.0.3, 10.0.0.2', 'ftp, https', 'https'],
    ['no addresses', '', 'http, https', 'https'],
    ['an address that is not the client’s', '198.51.100.1, 10.0.0.2', 'http, https', 'https'],
  ])('are the last where there is nothing better: %s', (_what, forwardedFor, proto, expected) => {
    expect(toldTo('192.0.2.1', { 'x-forwarded-for': forwardedFor, 'x-forwarded-proto': proto })[0]).toBe(expected);
  });
});
