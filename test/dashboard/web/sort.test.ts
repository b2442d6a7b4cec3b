import { describe, expect, it } from 'vitest';
import { sorting } from '../../../src/dashboard/web/address.ts';

const columns = [
  { name: 'Flow', sortBy: ({ name }: { name: string }) => name },
  { name: 'Rate', sortBy: ({ rate }: { rate: number | null }) => rate },
  { name: 'State' },
];
const row = (name: string, rate: number | null) => ({ name, rate });
const rows = [row('b', 0.5), row('C', null), row('a', 1), row('d', 0.5)];
const names = (sort: string | null) =>
  sorting
    .rows(rows, columns, sorting.read(sort))
    .map(({ name }) => name)
    .join('');

describe('rows', () => {
  it.each([
    [null, 'bCad'],
    ['', 'bCad'],
    ['-', 'bCad'],
    ['Flow', 'abCd'],
    ['-Flow', 'dCba'],
    ['Rate', 'bdaC'],
    ['-Rate', 'abdC'],
    ['State', 'bCad'],
    ['constructor', 'bCad'],
  ])('sorted by %j are %s: equal ones keep their order, those without a value come last', (sort, expected) => {
    expect(names(sort)).toBe(expected);
  });
});

it.each<[string | null, boolean, string | undefined]>([
  [null, false, '-Rate'],
  ['-Rate', false, 'Rate'],
  ['Rate', false, undefined],
  ['Flow', false, '-Rate'],
  [null, true, 'Rate'],
  ['Rate', true, '-Rate'],
  ['-Rate', true, undefined],
])('a click on a column sorted by %j, text: %s, leads to %j', (sort, isText, expected) => {
  expect(sorting.next(sorting.read(sort), 'Rate', isText)).toBe(expected);
});
