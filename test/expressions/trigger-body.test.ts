import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ArrivingBody, parseBody } from '../../src/expressions/trigger-body.ts';
import { parseJson } from '../../src/model/json.ts';

const BYTES = Buffer.from([0xff, 0xfe, 0x00, 0x80]);
const BASE64 = { base64: '//4AgA==' };
const FORM = 'application/x-www-form-urlencoded';

describe('parseBody', () => {
  it.each([
    ['application/json', '{"a":1}', { a: 1 }],
    ['Application/JSON; charset=UTF-8', '[1]', [1]],
    ['application/vnd.github+json', 'null', null],
    ['application/cloudevents+json;v=1', '"x"', 'x'],
    ['application/json', '\uFEFF{"a":1}', { a: 1 }],
    ['application/json', '', null],
    ['text/plain', '', null],
    [undefined, '', null],
    [undefined, '{"a":1}', { a: 1 }],
    ['text/plain', '{"a":1}', { a: 1 }],
    [FORM, '{"a":1}', { a: 1 }],
    [FORM, 'a=1&b=x+y&c=%C3%A9', { a: '1', b: 'x y', c: 'é' }],
    [`${FORM}; charset=utf-8`, 'a=1&a=2&a=3&b=', { a: ['1', '2', '3'], b: '' }],
    [FORM, '?a=1', { '?a': '1' }],
    ['text/plain', 'hello', 'hello'],
    [undefined, 'a=1', 'a=1'],
    ['multipart/form-data; boundary=x', '--x--', {}],
    ['multipart/form-data; boundary=x', 'hello', 'hello'],
    ['multipart/form-data', '--x--', '--x--'],
    ['', 'hello', 'hello'],
    [';;;', 'hello', 'hello'],
    ['json', '{"a":', '{"a":'],
    ['+json', '{"a":', '{"a":'],
    ['application/jsonx', '{"a":', '{"a":'],
    ['\u0000/\u0000', 'hello', 'hello'],
  ])('reads %o with the body %o', (contentType, body, value) => {
    expect(parseBody(Buffer.from(body), { contentType })).toEqual({ value });
  });

  it.each([undefined, 'text/plain', FORM, 'image/png'])(
    'keeps bytes that are not text as base64 under %o',
    (contentType) => {
      expect(parseBody(BYTES, { contentType })).toEqual({ value: BASE64 });
    },
  );

  it.each([
    ['application/json', '{"a":'],
    ['application/problem+json', 'hello'],
    ['APPLICATION/JSON ;charset=x', "{'a':1}"],
    ['application/json', ' '],
  ])('refuses %s with the body %o', (contentType, body) => {
    expect(parseBody(Buffer.from(body), { contentType })).toEqual({ error: expect.stringContaining('says JSON') });
  });

  it('refuses bytes that are not UTF-8 if the content type says JSON', () => {
    expect(parseBody(BYTES, { contentType: 'application/json' })).toEqual({
      error: expect.stringContaining('not text of its charset'),
    });
  });

  const MULTIPART = 'multipart/form-data; boundary=X';
  const part = (head: string, content: string) =>
    `--X\r\nContent-Disposition: form-data; ${head}\r\n\r\n${content}\r\n`;
  const read = (...parts: string[]) =>
    parseBody(Buffer.from(`${parts.join('')}--X--\r\n`, 'latin1'), { contentType: MULTIPART });

  it('reads the fields of a multipart form, and its files', () => {
    const file = part('name="f"; filename="x.png"\r\nContent-Type: image/png', '\x89PNG');
    const named = part('name="f"; filename="y"', 'y');
    expect(read(part('name="a"', '1'), file, named, part('name="a"', '2'))).toEqual({
      value: {
        a: ['1', '2'],
        f: [
          { filename: 'x.png', type: 'image/png', base64: 'iVBORw==' },
          { filename: 'y', type: 'application/octet-stream', base64: 'eQ==' },
        ],
      },
    });
  });

  it('reads a multipart field by the charset of its part, and keeps what is no text as base64', () => {
    expect(read(part('name="a"\r\nContent-Type: text/plain; charset=iso-8859-1', 'caf\xe9'))).toEqual({
      value: { a: 'café' },
    });
    expect(read(part('name="a"', '\xff'))).toEqual({
      value: { a: { filename: '', type: 'application/octet-stream', base64: '/w==' } },
    });
  });

  it('leaves out the content of files beyond 1 MiB in one form, and says how large they are', () => {
    const file = (bytes: number) => part('name="f"; filename="f"', 'x'.repeat(bytes));
    const { value } = read(file(700_000), file(700_000), file(300_000)) as { value: { f: object[] } };
    expect(value.f[1]).toEqual({ filename: 'f', type: 'application/octet-stream', base64: null, bytes: 700_000 });
    expect(value.f).toMatchObject([{ base64: expect.any(String) }, {}, { base64: expect.any(String) }]);
  });

  it('lets no name of a multipart form reach a prototype', () => {
    const { value } = read(part('name="__proto__"', '1'), part('name="constructor"; filename="__proto__"', '2')) as {
      value: object;
    };
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value)).toEqual(['__proto__', 'constructor']);
  });

  it.each([
    ['cut in a part', `${part('name="a"', '1')}--X\r\nContent-Disp`],
    ['cut behind a part', part('name="a"', '1')],
    ['with lines that end with LF alone', `${part('name="a"', '1')}--X--\n`.replaceAll('\r', '')],
  ])('does not take a multipart form for an empty one: %s', (_what, body) => {
    expect(parseBody(Buffer.from(body), { contentType: MULTIPART })).toEqual({
      error: 'the form has no end: it is cut, or its lines do not end with CR LF',
    });
  });

  it('refuses a multipart form of more than a thousand parts', () => {
    expect(read(part('name="a"', '').repeat(1001))).toEqual({ error: 'the form has more than 1000 fields' });
  });

  it('quotes nothing of a body that it refuses', () => {
    const parsed = parseBody(Buffer.from('{"password": hunter2hunter2}'), { contentType: 'application/json' });
    expect(JSON.stringify(parsed)).not.toMatch(/hunter|password/);
  });

  it('lets no field reach a prototype', () => {
    const form = parseBody(Buffer.from('__proto__=1&constructor=2'), { contentType: FORM });
    const json = parseBody(Buffer.from('{"__proto__":"1","constructor":"2"}'), { contentType: 'application/json' });
    for (const parsed of [form, json]) {
      const value = 'value' in parsed ? parsed.value : undefined;
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
      expect(Object.entries(value ?? {})).toEqual([
        ['__proto__', '1'],
        ['constructor', '2'],
      ]);
    }
  });

  it.each([1_001, 10_000])('refuses a form of %i fields, and says how many it takes', (count) => {
    expect(parseBody(Buffer.from('a=&'.repeat(count)), { contentType: FORM })).toEqual({
      error: 'the form has more than 1000 fields',
    });
  });

  it('reads a form as URLSearchParams does', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }))), (pairs) => {
        const text = new URLSearchParams(pairs).toString();
        const expected: Record<string, string[]> = Object.create(null);
        for (const [name, value] of new URLSearchParams(text)) expected[name] = [...(expected[name] ?? []), value];
        const parsed = parseBody(Buffer.from(`${text}&`), { contentType: FORM });
        const value = 'value' in parsed ? parsed.value : undefined;
        const read = Object.entries(value ?? {}).map(([name, given]) => [name, [given].flat()]);
        expect(Object.fromEntries(read)).toEqual({ ...expected });
      }),
    );
  });

  it('refuses to read JSON that is nested deeper than 256 levels, which is not malformed', () => {
    const nested = (depth: number) => Buffer.from(`{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`);
    expect(parseBody(nested(256), { contentType: 'application/json' })).toHaveProperty('value');
    for (const depth of [257, 5_000, 400_000]) {
      expect(parseBody(nested(depth), { contentType: 'application/json' })).toEqual({
        error: 'the body is nested deeper than 256 levels',
      });
      expect(new ArrivingBody(nested(depth), { contentType: 'application/json' }).isMalformed()).toBe(false);
    }
  });

  it('does not count brackets in strings as nesting', () => {
    const body = JSON.stringify({ 'a["{\\"': '[{"\\'.repeat(300) });
    expect(parseBody(Buffer.from(body), { contentType: 'application/json' })).toEqual({ value: JSON.parse(body) });
  });

  it('never throws, for any body and any content type', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.option(fc.string(), { nil: undefined }), (body, contentType) => {
        expect(() => parseBody(body, { contentType })).not.toThrow();
      }),
    );
  });

  it('gives back any JSON value, whatever its content type says', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 'application/json', FORM), (text, contentType) => {
        expect(parseBody(Buffer.from(text), { contentType })).toEqual({ value: parseJson(text) });
      }),
    );
  });
});
