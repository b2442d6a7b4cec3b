import { expect, it, vi } from 'vitest';
import { listOrNothing, namesLike, noSuch } from '../../src/commands/lists.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';

const names = BUILT_IN_SCHEMES.flatMap(({ name, title }) => [name, title]);

it.each([
  ['strpe', 'Stripe'],
  ['Zoon', 'Zoom'],
  ['zendex', 'Zendesk'],
  ['git lab', 'GitLab'],
  ['stripe webhooks', 'Stripe'],
])('takes %s for %s, wherever in a long list it is', (wanted, name) => {
  expect(namesLike(wanted, names)[0]).toBe(name);
});

it('means nothing by a name that is like no other', () => {
  expect(namesLike('qqqqqqqq', names)).toEqual([]);
  expect(namesLike('', names)).toEqual([]);
});

it('names what is near, or else what there is, one a line and not all of it', () => {
  const known = Array.from({ length: 15 }, (_, index) => `hook-${index}`);
  expect(noSuch('webhook', 'hok-3', known)).toBe('There is no webhook "hok-3"; did you mean "hook-3"?');
  expect(noSuch('webhook', 'x', known).split('\n')).toEqual([
    'There is no webhook "x"; the webhooks are:',
    ...known.slice(0, 12).map((name) => `  ${name}`),
    '  … and 3 more',
  ]);
  expect(noSuch('webhook', 'x', [])).toBe('There is no webhook "x", and no other');
});

it.each([
  [2, '--take shows more, --until what is older'],
  [500, '--until shows what is older'],
])('says of a list cut at %d rows how to see more', (take, more) => {
  const told = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  listOrNothing(
    ['id'],
    Array.from({ length: take }, () => ['1']),
    take,
  );
  expect(told.mock.calls).toEqual([[`the newest ${take} alone; ${more}\n`]]);
  told.mockRestore();
});
