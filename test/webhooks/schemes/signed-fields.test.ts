import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SignedText } from '../../../src/webhooks/schemes/layout.ts';
import { signedPayload } from '../../../src/webhooks/schemes/signed-payload.ts';
import { part } from '../../../src/webhooks/schemes/spec.ts';
import { bodyReader } from '../../../src/webhooks/schemes/values.ts';
import { builtIn, deliveryOf } from './fixtures.ts';

/** The signed bytes as text, or why there are none. */
function signedText(
  text: SignedText,
  body: string | Buffer,
  given: { id?: string; time?: string; name?: string } = {},
) {
  const delivery = deliveryOf({ body });
  const payload = signedPayload(text, {
    delivery,
    publicUrl: 'https://a.example/',
    timestamp: given.time,
    deliveryId: given.id,
    name: given.name,
    readField: bodyReader({}, delivery.body),
  });
  return payload.isComplete ? Buffer.concat([...(payload.variants[0] ?? [])]).toString() : payload;
}

const textOrNothing = (signed: ReturnType<typeof signedText>) => (typeof signed === 'string' ? signed : undefined);

const NAMES = ['a', 'b', 'c', 'd'] as const;
const words = fc
  .array(fc.constantFrom('x', ':', '\n', 'a\n', '\nb\n', 'a:b', '|', 'é', ''), { maxLength: 5 })
  .map((parts) => parts.join(''));
const bodies = fc.record({ a: words, b: words, c: words, d: words });

describe.each(['colons', 'lines'] as const)('members of the body joined by %s', (joined) => {
  const members = NAMES.map((name) => part.field([name], { isFree: name === 'b', isLine: joined === 'lines' }));
  const fields = { signs: members.flatMap((it, at) => (joined === 'lines' || at === 0 ? [it] : [':', it])) };
  const bytesOf = (body: object) => textOrNothing(signedText(fields, JSON.stringify(body)));

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
    expect(signedText(fields, body)).toMatchObject({ reason: 'signature_malformed' });
  });

  it('are refused where the body is not UTF-8', () => {
    const body = Buffer.from('{"a":"\xff","b":"","c":"","d":""}', 'latin1');
    expect(signedText(fields, body)).toMatchObject({ reason: 'signature_malformed' });
  });

  it('take time that grows with the body, not with its square', () => {
    const long = (length: number) => JSON.stringify({ a: '1', b: ':\n'.repeat(length), c: '4', d: '5' });
    expect(signedText(fields, long(400_000))).toBeTypeOf('string');
  });
});

describe('Adyen', () => {
  const item = JSON.parse(builtIn('Adyen').sample?.body ?? '').notificationItems[0].NotificationRequestItem;
  const bytesOf = (...items: object[]) => signedText(builtIn('Adyen'), JSON.stringify({ notificationItems: items }));

  it('signs eight members of the one notification', () => {
    expect(bytesOf({ NotificationRequestItem: item })).toBe(
      '7914073381342284::TestMerchant:TestPayment-1407325143704:1130:EUR:AUTHORISATION:true',
    );
  });

  it('signs nothing of two notifications, of none, or of one that is not what Adyen sends', () => {
    const one = { NotificationRequestItem: item };
    const optional = { NotificationRequestItem: { ...item, originalReference: {} } };
    const brace = { NotificationRequestItem: { ...item, pspReference: '{1' } };
    for (const items of [[one, one], [], [brace], [optional], [{}], [{ NotificationRequestItem: 'x' }]]) {
      expect(bytesOf(...items)).toMatchObject({ reason: 'signature_malformed' });
    }
  });
});

describe('a line with a checksum', () => {
  const parts = fc.constantFrom('a', 'b', 'a|b', '|', '', '1');
  const names = fc.constantFrom('8PT597110X687430LKGECATA', '1JE4291016473214C');
  const times = fc.constantFrom('2026-11-21T12:00:00Z', '2026-11-21T12:00:00.5Z');
  const lineOf = ({ body, ...given }: { id: string; time: string; name: string; body: string }) =>
    textOrNothing(signedText(builtIn('PayPal'), body, given));

  it('is the same only for the same id, time and name', () => {
    fc.assert(
      fc.property(fc.tuple(parts, times, names), fc.tuple(parts, times, names), (one, other) => {
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
