import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withChanges } from '../../../src/dashboard/web/address.ts';
import { runList } from '../../../src/features/runs/page/list.ts';

const asked = (path: string) => Object.fromEntries(new URLSearchParams(path.split('?')[1]));

describe('the filters of the list of runs', () => {
  it('carry any text to the API unchanged', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, unit: 'grapheme' }), (search) => {
        const query = new URLSearchParams(withChanges('', { search, status: 'Failed' }));
        expect(asked(runList.path(query))).toMatchObject({ search, status: 'Failed' });
      }),
    );
  });

  it.each([
    ['', false],
    ['window=7d', false],
    ['search=', false],
    ['search=x', true],
    ['status=Failed', true],
    ['flowId=f', true],
    ['waiting=signal', true],
    ['last=15m', true],
    ['until=5', true],
    ['skip=100', true],
    ['skip=0', false],
    ['skip=abc', false],
  ])('in ?%s leave some runs out: %s', (query, isLess) => {
    expect(runList.isNarrowed(new URLSearchParams(query))).toBe(isLess);
  });

  it('have the span of time', () => {
    const query = new URLSearchParams('since=1&until=2');
    expect(asked(runList.path(query))).toMatchObject({ since: '1', until: '2' });
  });
});
