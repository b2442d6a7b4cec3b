import { expect, it } from 'vitest';
import { withNamedKey } from '../../src/dashboard/input.ts';

it.each([
  ['order:SO-1010', { order: 'SO-1010' }],
  ['event:orders/create', { event: 'orders/create' }],
  ['id:a:b', { id: 'a:b' }],
])('a search for %s means that search key, whole', (search, searchKeys) => {
  expect(withNamedKey({ search })).toEqual({ search: undefined, searchKeys });
});

it.each(['SO-1010', 'https://shop.example.com', 'fe80::1', 'error: no such order', 'order:', '2001:db8::1', ''])(
  'a search for %j means itself',
  (search) => {
    expect(withNamedKey({ search })).toEqual({ search });
  },
);

it('a search key that is named apart stands next to the search', () => {
  const both = { search: 'order:SO-1010', searchKeys: { event: 'x' } };
  expect(withNamedKey(both)).toBe(both);
});
