import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { SourceError } from '../../../../src/features/reconcile/source.ts';
import { listSource, type PagedList } from '../../../../src/features/reconcile/sources/list.ts';
import { type Json, parseJson } from '../../../../src/model/json.ts';
import { json } from '../fakes/fake-api.ts';
import { asking, readAll } from '../read-all.ts';

const WINDOW = { since: Date.parse('2026-11-25T00:00:00.250Z'), until: Date.parse('2026-11-27T00:00:00.750Z') };

const list: PagedList = {
  url: 'https://api.example.com/v2/events?after={since}',
  items: 'response.body.events',
  id: 'item.id',
  time: 'item.at',
};

const event = { id: 'e1', at: '2026-11-26T10:00:00Z' };

function read(more: Partial<PagedList>, body: Json | string, headers: Record<string, string> = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return listSource({ ...list, ...more }).read({ status: 200, headers, text, json: parseJson(text) }, WINDOW);
}

const itemOf = (more: Partial<PagedList>, item: Json) => read(more, { events: [item] }).items[0];

describe('the first request of a list', () => {
  test.each([
    ['https://a.example/?from={since}', 'https://a.example/?from=2026-11-25T00%3A00%3A00.250Z'],
    ['https://a.example/?to={until}', 'https://a.example/?to=2026-11-27T00%3A00%3A00.750Z'],
    ['https://a.example/?from={since:seconds}&to={until:seconds}', 'https://a.example/?from=1795564800&to=1795737601'],
    ['https://a.example/?from={since:milliseconds}', 'https://a.example/?from=1795564800250'],
    ['https://a.example/{since:seconds}/events', 'https://a.example/1795564800/events'],
  ])('%s is %s', (url, expected) => {
    expect(listSource({ ...list, url }).list(WINDOW).url).toBe(expected);
  });

  it('carries the headers of the manifest, in lower case', () => {
    const { headers } = listSource({ ...list, requestHeaders: { 'X-Api-Key': 'k' } }).list(WINDOW);
    expect(headers).toEqual({ accept: 'application/json', 'x-api-key': 'k' });
  });

  it('carries the query of the manifest on every page', () => {
    const more = { next: 'link', requestQuery: { api_key: 'k&k' } };
    expect(listSource({ ...list, ...more }).list(WINDOW).url).toMatch(/events\?after=.*&api_key=k%26k$/);
    const { next } = read(more, { events: [] }, { link: '<?page=2>; rel="next"' });
    expect(next?.url).toBe('https://api.example.com/v2/events?page=2&api_key=k%26k');
  });
});

describe('an item of a list', () => {
  test.each<[string, Json, number]>([
    ['seconds', 1764151200, 1764151200000],
    ['seconds with a fraction', 1764151200.25, 1764151200250],
    ['milliseconds', 1764151200123, 1764151200123],
    ['digits', '1764151200', 1764151200000],
    ['UTC', '2025-11-26T10:00:00Z', 1764151200000],
    ['UTC with a long fraction', '2025-11-26T10:00:00.1234567Z', 1764151200123],
    ['an offset', '2025-11-26T05:00:00-05:00', 1764151200000],
  ])('has its time in %s', (_, at, expected) => {
    expect(itemOf({}, { id: 'e1', at })?.sentAt).toBe(expected);
  });

  test.each<[string, Json]>([
    ['a local time', '2025-11-26T10:00:00'],
    ['a date', '2025-11-26'],
    ['a day that the calendar does not have', '2025-13-40T10:00:00Z'],
    ['words', 'yesterday'],
    ['an empty text', ''],
    ['null', null],
    ['a negative number', -5],
    ['a number beyond all dates', 1e300],
    ['a list', [1764151200]],
  ])('is refused if its time is %s', (_, at) => {
    expect(() => itemOf({}, { id: 'e1', at })).toThrow('item 0: time: item.at gives no time');
  });

  it('is sent as JSON with its numbers as they came', () => {
    const text = '{"events":[{"id":12345678901234567890,"at":1764151200,"price":1.10}]}';
    const source = listSource(list);
    const [item] = source.read({ status: 200, headers: {}, text, json: parseJson(text) }, WINDOW).items;
    expect(item?.id).toBe('12345678901234567890');
    const sent = item && source.sent(item, undefined);
    expect(sent?.bodies.map(String)).toEqual(['{"id":12345678901234567890,"at":1764151200,"price":1.10}']);
    expect(sent?.headers).toEqual({ 'content-type': 'application/json' });
  });

  it('is sent byte for byte where its body is a text', () => {
    const body = '{ "n": 1.10,\n  "ü": "\\u00fc" }';
    const source = listSource({ ...list, body: 'item.raw', headers: 'item.headers' });
    const answer = { events: [{ ...event, raw: body, headers: { 'X-Signature': 'abc', Host: 'h', 'X-None': null } }] };
    const text = JSON.stringify(answer);
    const [item] = source.read({ status: 200, headers: {}, text, json: parseJson(text) }, WINDOW).items;
    expect(item?.content).toEqual(parseJson(body));
    const sent = item && source.sent(item, undefined);
    expect(sent?.bodies.map(String)).toEqual([body]);
    expect(sent?.headers).toEqual({ 'content-type': 'application/json', 'x-signature': 'abc' });
  });

  it('has no content where its text is not JSON', () => {
    const item = itemOf({ body: 'item.raw', headers: { 'Content-Type': '"text/plain"' } }, { ...event, raw: 'a=1' });
    expect(item).toMatchObject({ headers: { 'content-type': 'text/plain' }, body: Buffer.from('a=1') });
    expect(item).not.toHaveProperty('content');
  });

  test.each<[string, Json, string]>([
    ['no id', { at: 1 }, 'item 0: expression "item.id": there is no item.id'],
    ['an empty id', { id: ' ', at: 1 }, 'an id is a text or a number'],
    ['an id of another kind', { id: {}, at: 1 }, 'an id is a text or a number'],
  ])('is refused if it has %s', (_, item, message) => {
    expect(() => itemOf({}, item)).toThrow(message);
  });

  test.each<[string, Partial<PagedList>, Json, string]>([
    ['no body', { body: 'item.raw' }, {}, 'there is no item.raw'],
    ['a line break in a header', { headers: { 'x-a': 'item.v' } }, 'a\r\nb: c', 'headers: "x-a" cannot be'],
    ['an object as a header', { headers: { 'x-a': 'item.v' } }, {}, 'headers: "x-a" is an object'],
    ['a header without a name', { headers: 'item.v' }, { 'a b': 'x' }, 'headers: "a b" cannot be'],
    ['a list of headers', { headers: 'item.v' }, [['a', 'b']], 'gives an array, not an object'],
  ])('with %s cannot be sent, and the others can', (_, more, v, message) => {
    const source = listSource({ ...list, ...more });
    const text = JSON.stringify({
      events: [
        { ...event, v },
        { ...event, id: 'e2', raw: 'r', v: null },
      ],
    });
    const { items } = source.read({ status: 200, headers: {}, text, json: parseJson(text) }, WINDOW);
    expect(items.map(({ id }) => id)).toEqual(['e1', 'e2']);
    expect(() => items[0] && source.sent(items[0], undefined)).toThrow(message);
  });

  it('may take parts of the answer', () => {
    const page = read({ body: '{"shop": response.body.shop, "id": item.id}' }, { shop: 's', events: [event] });
    expect(page.items[0]?.content).toEqual({ shop: 's', id: 'e1' });
  });
});

describe('the next page', () => {
  const first = 'https://api.example.com/v2/events?after=2026-11-25T00%3A00%3A00.250Z';
  const after = 'https://api.example.com/v2/events?page=2';

  test.each<[string, string]>([
    ['<https://api.example.com/v2/events?page=2>; rel="next"', after],
    ['<https://api.example.com/v2/events?page=0>; rel="prev", <?page=2>; rel=next', after],
    ['<?page=2>; title="a, b"; rel="last next"', after],
    ['</v2/events?page=2>;REL="NEXT", <?page=9>; rel="last"', after],
  ])('is found in the Link header %s', (link, expected) => {
    expect(read({ next: 'link' }, { events: [] }, { link }).next?.url).toBe(expected);
  });

  test.each(['<?page=2>; rel="next-archive"', '<?page=2>; rel="prev"', '<?page=2>', 'nonsense', ''])(
    'is not there with the Link header %s',
    (link) => {
      expect(read({ next: 'link' }, { events: [] }, { link }).next).toBeUndefined();
    },
  );

  test.each<[Json, string | undefined]>([
    ['https://api.example.com/v2/events?page=2', after],
    ['?page=2', after],
    ['/v3', 'https://api.example.com/v3'],
    [null, undefined],
    ['', undefined],
    [false, undefined],
  ])('is what an expression gives: %j', (next, expected) => {
    expect(read({ next: 'response.body.next' }, { events: [], next }).next?.url).toBe(expected);
  });

  it('is the first page with other parameters', () => {
    const nextQuery = { after: 'response.body.cursor', page: 'response.body.page' };
    const page = read({ nextQuery }, { events: [], cursor: 'c&d', page: 3 });
    expect(page.next?.url).toBe('https://api.example.com/v2/events?after=c%26d&page=3');
    expect(read({ nextQuery }, { events: [], cursor: null, page: 3 }).next).toBeUndefined();
  });

  it('carries the credentials of the first', () => {
    const more = { next: 'link', requestHeaders: { authorization: 'Bearer k' } };
    const { next } = read(more, { events: [] }, { link: '<?page=2>; rel="next"' });
    expect(next?.headers.authorization).toBe('Bearer k');
  });

  test.each([
    'https://evil.example/v2/events?page=2',
    'http://api.example.com/v2/events?page=2',
    'https://api.example.com:8443/v2/events',
    '//evil.example/v2',
    'https://api.example.com@evil.example/',
    'https://user:pw@api.example.com/v2/events?page=2',
    'https://api.example.com.evil.example/',
    '\\\\evil.example/x',
    'file:///etc/passwd',
    'javascript:alert(1)',
  ])('is refused at %s, where the credentials would be sent', (next) => {
    expect(() => read({ next: 'response.body.next' }, { events: [], next })).toThrow(
      'the credentials are not sent there',
    );
    expect(() => read({ next: 'link' }, { events: [] }, { link: `<${next}>; rel="next"` })).toThrow(SourceError);
  });

  it('is refused if it is the first again', () => {
    expect(() => read({ next: 'response.body.next' }, { events: [], next: first })).toThrow('the first one again');
  });

  test.each<Json>([5, {}, ['?page=2'], true, 'https://['])('is refused if %j is no URL', (next) => {
    expect(() => read({ next: 'response.body.next' }, { events: [], next })).toThrow(
      'next: response.body.next gives no URL',
    );
  });

  it('is refused if the expression finds nothing, so that a mistake in it does not end the list early', () => {
    expect(() => read({ next: 'response.body.nxt' }, { events: [], next: '?page=2' })).toThrow(
      'there is no response.body.nxt',
    );
  });
});

describe('an answer', () => {
  test.each<[string, Json]>([
    ['an object in place of the list', { events: {} }],
    ['null in place of the list', { events: null }],
    ['no list', {}],
    ['a list in place of the object', []],
    ['a text', 'maintenance'],
  ])('is refused if it has %s', (_, body) => {
    expect(() => read({}, JSON.stringify(body))).toThrow(SourceError);
  });

  it('is told of without a part of a long text, which could be half of a credential', () => {
    const next = `https://${'a'.repeat(60)}.${'b'.repeat(60)}.example/`;
    expect(() => read({ next: 'response.body.next' }, { events: [], next })).toThrow('is at a text of 137 characters');
  });

  it('may have no items', () => {
    expect(read({}, { events: [] })).toEqual({ items: [] });
  });

  it('may be a list itself', () => {
    expect(read({ items: 'response.body' }, [event]).items).toHaveLength(1);
  });

  it('costs a bounded time, however much it holds', () => {
    expect(() => read({}, `{"events":[${'[],'.repeat(1_000_000)}[]]}`)).toThrow('takes more work than is allowed');
    const items = Array.from({ length: 20 }, () => event);
    const dear = { body: `[${'item,'.repeat(400)}item].map(a, [${'a,'.repeat(400)}a])` };
    expect(() => read(dear, { events: items })).toThrow('takes more work than is allowed');
  });
});

it('reads every item once, whatever the size of the pages', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(
        fc.string({ minLength: 1 }).filter((id) => id.trim() !== ''),
        { maxLength: 40 },
      ),
      fc.integer({ min: 1, max: 7 }),
      (ids, size) => {
        const api = asking(({ url }) => {
          const start = Number(url.searchParams.get('start') ?? 0);
          const more = start + size < ids.length;
          return json({
            events: ids.slice(start, start + size).map((id) => ({ id, at: 1764151200 })),
            more,
            start: start + size,
          });
        });
        const nextQuery = { start: 'response.body.more ? string(response.body.start) : ""' };
        const { items } = readAll(listSource({ ...list, nextQuery }), WINDOW, api);
        expect(items.map(({ id }) => id)).toEqual(ids);
      },
    ),
  );
});
