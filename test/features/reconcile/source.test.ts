import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { exactTexts } from '../../../src/features/reconcile/exact-json.ts';
import type { SourceAnswer } from '../../../src/features/reconcile/source.ts';
import { githubSource } from '../../../src/features/reconcile/sources/github.ts';
import { parseJson } from '../../../src/model/json.ts';

const config = { from: 'github', repo: 'octo/shop', hook: 7, token: 'ghp_x', every: 'PT15M', lookback: 'P2D' } as const;
const window = { since: 1000, until: 100_000 };
const answer = (value: unknown, headers: Record<string, string> = {}): SourceAnswer => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return { status: 200, headers, text, json: parseJson(text) };
};
const entry = (change: object = {}) => ({
  ...{ id: 1, guid: 'g-1', delivered_at: new Date(5000).toISOString(), event: 'push', status: 'OK', status_code: 200 },
  ...change,
});

describe('the log of GitHub', () => {
  const source = githubSource(config);

  it.each([
    [{}, 'https://api.github.com/repos/octo/shop/hooks/7/deliveries?per_page=100'],
    [{ repo: undefined, org: 'octo' }, 'https://api.github.com/orgs/octo/hooks/7/deliveries?per_page=100'],
    [
      { baseUrl: 'https://ghe.example.com/api/v3/' },
      'https://ghe.example.com/api/v3/repos/octo/shop/hooks/7/deliveries?per_page=100',
    ],
  ])('is asked where it is: %j', (change, url) => {
    expect(githubSource({ ...config, ...change }).list(window)).toMatchObject({
      method: 'GET',
      url,
      headers: { authorization: 'Bearer ghp_x' },
    });
  });

  it('names what was sent by its guid, and asks for its contents', () => {
    const { items } = source.read(answer([entry({ status: 'timed out', status_code: 0 })]), window);
    expect(items).toMatchObject([
      {
        id: 'g-1',
        sentAt: 5000,
        headers: { 'x-github-delivery': 'g-1', 'x-github-event': 'push' },
        failure: 'timed out',
        detail: { url: 'https://api.github.com/repos/octo/shop/hooks/7/deliveries/1' },
      },
    ]);
  });

  it('asks for an id of more digits than a double has, as it is', () => {
    const text = JSON.stringify([entry({ id: 'ID' })]).replace('"ID"', '9007199254740993123');
    expect(source.read(answer(text), window).items[0]?.detail?.url).toMatch(/deliveries\/9007199254740993123$/);
  });

  it('goes on by the cursor alone, whatever host the answer names', () => {
    const link = '<https://evil.example.com/steal?cursor=v1_12>; rel="next", <https://x/>; rel="first"';
    expect(source.read(answer([entry()], { link }), window).next?.url).toBe(
      'https://api.github.com/repos/octo/shop/hooks/7/deliveries?per_page=100&cursor=v1_12',
    );
  });

  it('ends where all that follows is too old, and at the last page', () => {
    const link = '<https://api.github.com/x?cursor=v1_12>; rel="next"';
    const old = entry({ delivered_at: new Date(0).toISOString() });
    expect(source.read(answer([entry(), old], { link }), window).next).toBeUndefined();
    expect(source.read(answer([entry()]), window).next).toBeUndefined();
  });

  it.each([
    ['no list', { message: 'ok' }],
    ['no time', [entry({ delivered_at: 'yesterday' })]],
    ['no guid', [entry({ guid: '' })]],
    ['an id that leads elsewhere', [entry({ id: '../../x' })]],
    ['no object', [null]],
  ])('is not understood where it has %s', (_, value) => {
    expect(() => source.read(answer(value), window)).toThrow(
      /^GitHub (answered with no list|listed a delivery without)/,
    );
  });

  it('is not understood where a page has far more than was asked for', () => {
    const page = Array.from({ length: 1001 }, () => entry());
    expect(() => source.read(answer(page), window)).toThrow('a page has 1001 entries; at most 1000 are read');
  });

  it('is not understood where the contents are those of another delivery', () => {
    const [item] = source.read(answer([entry()]), window).items;
    const other = answer({ guid: 'another', request: { headers: {}, payload: {} } });
    expect(() => item && source.sent(item, other)).toThrow('GitHub answered with another delivery');
  });

  it.each([{}, { request: null }, { request: { headers: null, payload: null } }, { request: { payload: {} } }])(
    'is not understood where the contents are gone: %j',
    (value) => {
      const [item] = source.read(answer([entry()]), window).items;
      expect(() => item && source.sent(item, answer(value))).toThrow('GitHub no longer has the payload');
    },
  );
});

describe('the bytes of a value', () => {
  it('that was written without white space are found in any document that holds it', () => {
    const json = fc.json({ maxDepth: 4 }).filter((text) => !/-0|e[+-]/i.test(text));
    fc.assert(
      fc.property(json, fc.constantFrom(undefined, 1, 2, '\t'), (sent, indent) => {
        const compact = JSON.stringify(JSON.parse(sent));
        const document = JSON.stringify({ before: [1, '"}{'], request: { payload: JSON.parse(sent) } }, null, indent);
        expect(exactTexts(document, ['request', 'payload'], JSON.parse(sent))).toContain(compact);
      }),
    );
  });

  it('keep the numbers and escapes of the document', () => {
    const document = '{ "payload": { "n": 1.0, "big": 12345678901234567890, "text": "\\u00e4 \\"x\\" " } }';
    const [first] = exactTexts(document, ['payload'], { n: 1, big: 12345678901234567000, text: 'ä "x" ' });
    expect(first).toBe('{"n":1.0,"big":12345678901234567890,"text":"\\u00e4 \\"x\\" "}');
  });

  it.each([
    ['a long text', `"${'x\\\\\\"'.repeat(4_000_000)}"`],
    ['as deep as its sender likes', `${'[ '.repeat(1_000_000)}${']'.repeat(1_000_000)}`],
    ['of a million values', `[${'1, '.repeat(1_000_000)}1]`],
  ])('are found where it is %s', (_, sent) => {
    const [first] = exactTexts(`{"a": {"payload": 0}, "payload" : 0, "payload" : ${sent}\n}`, ['payload'], null);
    // Not `toBe`: showing a difference of so many characters takes minutes.
    expect(first === sent.replaceAll(' ', '')).toBe(true);
  });

  it('are also those of Rails, which escapes what HTML could misread', () => {
    expect(exactTexts('{"p":"<a&b>"}', ['p'], '<a&b>')).toEqual(['"<a&b>"', '"\\u003ca\\u0026b\\u003e"']);
  });
});
