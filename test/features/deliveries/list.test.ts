import { describe, expect, it } from 'vitest';
import { deliveryList, lastPartOf } from '../../../src/features/deliveries/page/list.ts';

const asked = (path: string) => Object.fromEntries(new URLSearchParams(path.split('?')[1]));

describe('the filters of the list of deliveries', () => {
  it('become the question to the API', () => {
    const query = new URLSearchParams('flowId=f&reason=ip_denied&search=a%26b%3D1&outcome=rejected&skip=50&else=x');
    expect(asked(deliveryList.path(query))).toEqual({
      flowId: 'f',
      reason: 'ip_denied',
      search: 'a&b=1',
      rejectedOnly: 'true',
      skip: '50',
      take: '50',
      includeTotal: 'true',
    });
  });

  it.each([
    ['held', { heldOnly: 'true' }],
    ['accepted', { acceptedOnly: 'true' }],
    ['rejected', { rejectedOnly: 'true' }],
    ['something', {}],
    ['filtered', { outcome: 'filtered' }],
    ['duplicate', { outcome: 'duplicate' }],
    ['', {}],
  ])('ask for the outcome %j by what the API calls it', (outcome, expected) => {
    expect(asked(deliveryList.path(new URLSearchParams({ outcome })))).toEqual({
      ...expected,
      take: '50',
      includeTotal: 'true',
    });
  });

  it.each([
    ['reason=ip_denied', true],
    ['outcome=accepted', true],
    ['status=Failed', false],
  ])('in ?%s leave some deliveries out: %s', (query, isLess) => {
    expect(deliveryList.isNarrowed(new URLSearchParams(query))).toBe(isLess);
  });

  it('have the span of time', () => {
    const query = new URLSearchParams('since=1&until=2');
    expect(asked(deliveryList.path(query))).toMatchObject({ since: '1', until: '2' });
  });
});

it.each([
  ['https://hooks.example.com/flows/api/webhook/ordres?token=***', 'ordres'],
  ['http://127.0.0.1:3000/flows/api/webhook/', ''],
  ['', ''],
])('the last part of %j is %j', (url, expected) => {
  expect(lastPartOf(url)).toBe(expected);
});
