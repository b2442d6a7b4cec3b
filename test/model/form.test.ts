import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeForm, decodeMultipart, readMultipart } from '../../src/model/form.ts';

it('decodes what URLSearchParams writes, name for name and value for value', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }))), (pairs) => {
      const fields = decodeForm(Buffer.from(new URLSearchParams(pairs).toString()));
      const texts = fields?.map(({ name, value }) =>
        [name, value].map((text) => Buffer.from(text, 'latin1').toString()),
      );
      expect(texts).toEqual(pairs.map((pair) => pair.map((text) => Buffer.from(text).toString())));
    }),
  );
});

it.each([
  [
    'a=1&b=2',
    [
      ['a', '1'],
      ['b', '2'],
    ],
  ],
  [
    'a=1&&b',
    [
      ['a', '1'],
      ['b', ''],
    ],
  ],
  ['a=b=c', [['a', 'b=c']]],
  ['a+b=%2B', [['a b', '+']]],
  ['a=%zz%4', [['a', '%zz%4']]],
  ['a=%ff', [['a', '\u00ff']]],
  ['', []],
])('decodes %j', (body, fields) => {
  expect(decodeForm(Buffer.from(body))?.map(({ name, value }) => [name, value])).toEqual(fields);
});

it('refuses a form of more than a thousand fields instead of decoding it', () => {
  expect(decodeForm(Buffer.from('a&'.repeat(1000)))).toBeUndefined();
  expect(decodeForm(Buffer.from('a&'.repeat(999)))).toHaveLength(999);
});

const part = (head: string, content: string) => `--X\r\n${head}\r\n\r\n${content}\r\n`;

it('reads the text fields of a multipart body and leaves files out', () => {
  const body = [
    part('Content-Disposition: form-data; name="timestamp"', '1529006854'),
    part('content-disposition: form-data;name="token"\r\nContent-Type: text/plain', 'abc\r\ndef'),
    part('Content-Disposition: form-data; name="signature"; filename="signature"', 'of a file'),
    part('Content-Disposition: form-data; name="empty"', ''),
    '--X--\r\n--X\r\nContent-Disposition: form-data; name="after"\r\n\r\nthe end\r\n--X--',
  ].join('');
  expect(decodeMultipart(Buffer.from(body), 'X')).toEqual([
    { name: 'timestamp', value: '1529006854' },
    { name: 'token', value: 'abc\r\ndef' },
    { name: 'empty', value: '' },
  ]);
});

it.each([
  ['quoted', 'name="a"; filename="x.txt"', 'a', 'x.txt'],
  ['without quotes, as HttpClient of .NET does', 'name=a; filename=x.txt', 'a', 'x.txt'],
  ['beside one in UTF-8, which counts', "name=a; filename=x.txt; filename*=utf-8''%C3%A4+.txt", 'a', 'Ã¤+.txt'],
  ['with a quote', String.raw`name="a"; filename="\"x\".txt"`, 'a', '"x".txt'],
  ['in front of the name, with a name in it', 'filename="; name=b"; Name="a"', 'a', '; name=b'],
  ['for a text field', 'name=a', 'a', undefined],
])('reads the name and the filename of a part: %s', (_what, parameters, name, filename) => {
  const head = `Content-Type: text/plain; name="c"\r\nContent-Disposition: form-data; ${parameters}`;
  expect(readMultipart(Buffer.from(`${part(head, '1')}--X--`), 'X')).toMatchObject([{ name, filename }]);
});

it('reads a multipart body behind a preamble', () => {
  const body = `for old mail readers\r\n${part('Content-Disposition: form-data; name="a"', '1')}--X--`;
  expect(decodeMultipart(Buffer.from(body), 'X')).toEqual([{ name: 'a', value: '1' }]);
});

it('ends on any bytes and any boundary', () => {
  const pieces = fc.constantFrom(
    '--X',
    '\r\n',
    '\r\n--X',
    '--',
    'name="a"',
    ';',
    '\r\n\r\n',
    'é',
    'Content-Disposition:',
  );
  fc.assert(
    fc.property(
      fc.array(pieces).map((list) => list.join('')),
      (body) => {
        const fields = decodeMultipart(Buffer.from(body), 'X') ?? [];
        expect(fields.every(({ name }) => name === 'a')).toBe(true);
      },
    ),
  );
});

it('refuses a multipart body of more than a thousand parts', () => {
  const body = part('Content-Disposition: form-data; name="a"', '1').repeat(1002);
  expect(decodeMultipart(Buffer.from(body), 'X')).toBeUndefined();
});
