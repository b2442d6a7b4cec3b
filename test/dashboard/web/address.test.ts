import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  flowMatches,
  isTotalBound,
  matchRoute,
  placeOf,
  skipOf,
  spanOf,
  splitAddress,
  withChanges,
  withQuery,
} from '../../../src/dashboard/web/address.ts';

const routes = ['/flows', '/flows/runs/first', '/flows/runs/:id', '/flows/:kind/:id'].map((path) => ({ path }));

describe('the screen of an address', () => {
  it.each([
    ['/flows', '/flows', {}],
    ['/flows/', '/flows', {}],
    ['/flows///', '/flows', {}],
    ['/flows/runs/first', '/flows/runs/first', {}],
    ['/flows/runs/17', '/flows/runs/:id', { id: '17' }],
    ['/flows/runs/a%2Fb%20c', '/flows/runs/:id', { id: 'a/b c' }],
    ['/flows/other/1', '/flows/:kind/:id', { kind: 'other', id: '1' }],
  ])('%s is %s', (path, route, params) => {
    expect(matchRoute(routes, path)).toEqual({ route: routes.find((each) => each.path === route), params });
  });

  it.each([['/'], [''], ['/flows/runs'], ['/Flows'], ['/flows/runs/1/2'], ['/flows/runs/%E0%A4%A'], ['/flows//1']])(
    '%s has none',
    (path) => {
      expect(matchRoute(routes, path)).toBeUndefined();
    },
  );

  it('gives any id back as it was written into the link', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, unit: 'grapheme' }), (id) => {
        expect(matchRoute(routes, `/flows/runs/${encodeURIComponent(id)}x`)?.params.id).toBe(`${id}x`);
      }),
    );
  });
});

describe('a link', () => {
  const ORIGIN = 'http://sluice.test:8080';
  it.each([
    ['/flows', '/flows'],
    ['/flows/runs?status=Failed', '/flows/runs?status=Failed'],
    ['/flows/runs/a%20b', '/flows/runs/a%20b'],
  ])('to %s stays on the page', (href, place) => {
    expect(placeOf(`${ORIGIN}${href}`, ORIGIN)).toBe(place);
  });

  it.each([
    [`${ORIGIN}/flows/api/runs`],
    [`${ORIGIN}/flows/api`],
    [`${ORIGIN}/flows/assets/x/main.js`],
    [`${ORIGIN}/flowsheet`],
    [`${ORIGIN}/metrics`],
    ['https://elsewhere.test/flows'],
    ['http://sluice.test/flows'],
    ['javascript:alert(1)'],
    ['mailto:flows@sluice.test'],
    // A link within the page, such as "Skip to content", moves the focus, which only the browser does.
    [`${ORIGIN}/flows#content`],
    // The href of an <a> without an address.
    [''],
  ])('to %s is left to the browser', (href) => {
    expect(placeOf(href, ORIGIN)).toBeUndefined();
  });
});

describe('the query of an address', () => {
  it.each([
    ['/flows', '/flows', ''],
    ['/flows?', '/flows', ''],
    ['/flows?a=1&b=2', '/flows', 'a=1&b=2'],
    ['/flows?search=why?', '/flows', 'search=why?'],
  ])('of %s is found', (address, path, search) => {
    expect(splitAddress(address)).toEqual({ path, search });
  });

  const name = fc.string({ minLength: 1, maxLength: 6 });
  const query = fc.dictionary(name, fc.string({ minLength: 1 }), { maxKeys: 5 });
  const asRecord = (search: string) => Object.fromEntries(new URLSearchParams(search));

  it('keeps every value that is set, whatever its letters', () => {
    fc.assert(
      fc.property(query, (values) => {
        expect(asRecord(withChanges('', values))).toEqual({ ...values });
      }),
    );
  });

  it('keeps what a change does not name, and drops what it empties', () => {
    fc.assert(
      fc.property(query, name, fc.constantFrom('', undefined), (values, gone, nothing) => {
        const { [gone]: _, ...rest } = values;
        expect(asRecord(withChanges(withChanges('', values), { [gone]: nothing }))).toEqual(rest);
      }),
    );
  });

  it('is absent, its question mark too, when nothing is left', () => {
    expect(withChanges('?skip=50', { skip: undefined })).toBe('');
  });
});

describe('the page of a list', () => {
  it.each([
    ['', 0],
    ['skip=50', 50],
    ['skip=0', 0],
    ['skip=-50', 0],
    ['skip=1.5', 0],
    ['skip=abc', 0],
    ['skip=', 0],
    ['skip=1e3', 1000],
    ['skip=99999999999999999999', 0],
    ['skip=Infinity', 0],
    ['skip=50&skip=100', 50],
  ])('of ?%s begins after %d rows', (query, skip) => {
    expect(skipOf(new URLSearchParams(query))).toBe(skip);
  });
});

describe('the span of time of a list', () => {
  const now = Date.UTC(2026, 10, 22, 12, 0, 59, 999);
  it.each([
    ['', { since: '', until: '' }],
    ['since=2026-11-22T03:00:00Z&until=5', { since: '2026-11-22T03:00:00Z', until: '5' }],
    ['last=15m', { since: '2026-11-22T11:45:00.000Z', until: '' }],
    ['last=1h&since=4', { since: '2026-11-22T11:00:00.000Z', until: '' }],
    ['last=1d', { since: '2026-11-21T12:00:00.000Z', until: '' }],
    ['last=7d', { since: '2026-11-15T12:00:00.000Z', until: '' }],
    ['last=ever', { since: '', until: '' }],
    // The API reports the error.
    ['since=yesterday', { since: 'yesterday', until: '' }],
  ])('?%s is asked for as %j', (query, span) => {
    expect(spanOf(new URLSearchParams(query), now)).toEqual(span);
  });
});

describe('a search for a flow', () => {
  const flow = {
    name: 'Größe prüfen',
    id: '0b7e2f44-6c1d',
    triggers: [{ slug: 'Orders' }, { slug: null }, {}],
  } as unknown as Parameters<typeof flowMatches>[0];
  it.each([
    ['', true],
    ['größe', true],
    ['PRÜFEN', true],
    ['orders', true],
    [' orders ', true],
    ['0B7E', true],
    ['null', false],
    ['.*', false],
  ])('for %j finds it: %s', (text, isFound) => {
    expect(flowMatches(flow, text)).toBe(isFound);
  });
});

describe('a question to the API', () => {
  it('leaves out what is undefined, empty or false, and keeps zero', () => {
    const query = { a: undefined, b: '', c: false, d: 0, e: 'x y&z', f: true };
    expect(withQuery('/runs', query)).toBe('/runs?d=0&e=x+y%26z&f=true');
    expect(withQuery('/runs', { a: undefined })).toBe('/runs');
  });
});

it.each([
  ['search=SO-1', 10_000, true],
  ['last=1h', 10_000, true],
  ['outcome=held', 10_000, true],
  ['outcome=rejected', 10_000, false],
  ['', 10_000, false],
  ['search=SO-1', 9_999, false],
])('of %j with a total of %i there may be more: %s', (query, total, isBound) => {
  expect(isTotalBound(new URLSearchParams(query), total)).toBe(isBound);
});
