import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checksumLine, fieldBytes } from '../../../src/webhooks/schemes/signed-fields.ts';
import type { SignedFields } from '../../../src/webhooks/schemes/spec.ts';
import { builtIn } from './fixtures.ts';

const NAMES = ['a', 'b', 'c', 'd'] as const;
const words = fc
  .array(fc.constantFrom('x', ':', '\n', 'a\n', '\nb\n', 'a:b', '|', 'é', ''), { maxLength: 5 })
  .map((parts) => parts.join(''));
const bodies = fc.record({ a: words, b: words, c: words, d: words });

describe.each(['colons', 'lines'] as const)('members of the body joined by %s', (joined) => {
  const fields: SignedFields = {
    joined,
    list: (body) => NAMES.map((name) => ({ name, value: body[name], isFree: name === 'b' })),
  };
  const bytesOf = (body: object) => {
    const built = fieldBytes(fields, Buffer.from(JSON.stringify(body)), undefined);
    return 'bytes' in built ? built.bytes.toString() : undefined;
  };

  it('are the same bytes only for the same members', () => {
    const seen = new Map<string, string>();
    fc.assert(
      fc.property(bodies, (body) => {
        const bytes = bytesOf(body);
        if (bytes === undefined) return;
        const text = JSON.stringify(NAMES.map((name) => body[name]));
        expect(seen.get(bytes) ?? text).toBe(text);
        seen.set(bytes, text);
      }),
      { numRuns: 3000 },
    );
    expect(seen.size).toBeGreaterThan(100);
  });

  it('are refused where what separates them stands in another member than the free one', () => {
    const delimiter = joined === 'colons' ? ':' : '\n';
    expect(bytesOf({ a: '1', b: `2${delimiter}3`, c: '4', d: '5' })).toBeDefined();
    for (const name of ['a', 'c', 'd']) {
      expect(bytesOf({ a: '1', b: '2', c: '4', d: '5', [name]: `x${delimiter}` })).toBeUndefined();
    }
  });

  it.each([
    ['a lone surrogate, which UTF-8 cannot say', '{"a":"\\ud800","b":"","c":"","d":""}'],
    ['a number that JavaScript confuses with its neighbour', '{"a":9007199254740993,"b":"","c":"","d":""}'],
    ['a fraction', '{"a":1.5,"b":"","c":"","d":""}'],
    ['null', '{"a":null,"b":"","c":"","d":""}'],
    ['an object', '{"a":{},"b":"","c":"","d":""}'],
    ['a missing member', '{"b":"","c":"","d":""}'],
    ['a body that is no object', '["1"]'],
    ['a body that is no JSON', 'a=1'],
    ['a byte order mark', '\ufeff{"a":"","b":"","c":"","d":""}'],
  ])('are refused with %s', (_, body) => {
    expect(fieldBytes(fields, Buffer.from(body), undefined)).toMatchObject({ reason: 'signature_malformed' });
  });

  it('are refused where the body is not UTF-8', () => {
    const body = Buffer.from('{"a":"\xff","b":"","c":"","d":""}', 'latin1');
    expect(fieldBytes(fields, body, undefined)).toMatchObject({ reason: 'signature_malformed' });
  });

  it('take time that grows with the body, not with its square', () => {
    const long = (length: number) => Buffer.from(JSON.stringify({ a: '1', b: ':\n'.repeat(length), c: '4', d: '5' }));
    expect(fieldBytes(fields, long(400_000), undefined)).toHaveProperty('bytes');
  });
});

describe('Adyen', () => {
  const { fields } = builtIn('Adyen').payload;
  const item = JSON.parse(builtIn('Adyen').sample?.body ?? '').notificationItems[0].NotificationRequestItem;
  const bytesOf = (...items: object[]) =>
    fieldBytes(fields, Buffer.from(JSON.stringify({ notificationItems: items })), undefined);

  it('signs eight members of the one notification', () => {
    expect(bytesOf({ NotificationRequestItem: item })).toEqual({
      bytes: Buffer.from('7914073381342284::TestMerchant:TestPayment-1407325143704:1130:EUR:AUTHORISATION:true'),
    });
  });

  it('signs nothing of two notifications, of none, or of one that begins like the other form', () => {
    const one = { NotificationRequestItem: item };
    const brace = { NotificationRequestItem: { ...item, pspReference: '{1' } };
    for (const items of [[one, one], [], [brace], [{}], [{ NotificationRequestItem: 'x' }]]) {
      expect(bytesOf(...items)).toMatchObject({ reason: 'signature_malformed' });
    }
  });
});

describe('a line with a checksum', () => {
  const parts = fc.constantFrom('a', 'b', 'a|b', '|', '', '1');
  const lineOf = (given: { id: string; time: string; name: string; body: string }) => {
    const delivery = { body: Buffer.from(given.body) };
    const built = checksumLine({ delivery, deliveryId: given.id, timestamp: given.time, name: given.name });
    return 'bytes' in built ? built.bytes.toString() : undefined;
  };

  it('is the same only for the same id, time and name', () => {
    fc.assert(
      fc.property(fc.tuple(parts, parts, parts), fc.tuple(parts, parts, parts), (one, other) => {
        const [a, b] = [one, other].map(([id, time, name]) => lineOf({ id, time, name, body: '{}' }));
        if (a !== undefined && a === b) expect(one).toEqual(other);
      }),
    );
  });

  it('is another one when one bit of the body is another', () => {
    const line = (body: string) => lineOf({ id: 'i', time: 't', name: 'n', body });
    expect(line('{"a":1}')).toBe('i|t|n|1444654255');
    expect(line('{"a":0}')).not.toBe(line('{"a":1}'));
  });
});
