import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressGroup } from '../../../src/webhooks/networks/addresses.ts';

describe('the group of an address', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2::1', '20010db800010002/64'],
    ['2001:DB8:1:2:ffff::', '20010db800010002/64'],
    ['2001:db8:1:3::1', '20010db800010003/64'],
    ['64:ff9b::c000:201', '64:ff9b::c000:201'],
    ['unknown', 'unknown'],
    ['', ''],
  ])('of "%s" is "%s"', (address, group) => {
    expect(addressGroup(address)).toBe(group);
  });

  it('is one for a whole /64 and never one for two of them', () => {
    const half = fc.tuple(...Array.from({ length: 4 }, () => fc.nat({ max: 0xffff })));
    const text = (parts: readonly number[]) => parts.map((part) => part.toString(16)).join(':');
    fc.assert(
      fc.property(half, half, half, half, (network, other, host, another) => {
        // Not the NAT64 network, whose hosts are unrelated to each other.
        fc.pre(network[0] !== 0x64 && network.some((part) => part > 0) && text(network) !== text(other));
        const group = addressGroup(text([...network, ...host]));
        expect(addressGroup(text([...network, ...another]))).toBe(group);
        expect(addressGroup(text([...other, ...host]))).not.toBe(group);
      }),
    );
  });
});
