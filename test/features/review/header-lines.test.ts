import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { headerLines } from '../../../src/features/review/header-lines.ts';

describe('headers as lines', () => {
  it.each([
    ['', {}],
    ['\n  \n', {}],
    ['x-a: 1', { 'x-a': '1' }],
    ['x-a:1\r\nX-B:  two words  ', { 'x-a': '1', 'X-B': 'two words' }],
    ['x-empty:', { 'x-empty': '' }],
    ['x-url: http://a:80/?b=c: d', { 'x-url': 'http://a:80/?b=c: d' }],
    // As a server reads a repeated header: RFC 9110, section 5.3.
    ['x-forwarded-for: 1.1.1.1\nX-Forwarded-For: 2.2.2.2', { 'x-forwarded-for': '1.1.1.1, 2.2.2.2' }],
    ['constructor: x', { constructor: 'x' }],
  ])('%j are read as %j', (text, headers) => {
    expect(headerLines.read(text)).toEqual(headers);
  });

  it('keep a name that objects treat in their own way', () => {
    expect(Object.entries(headerLines.read('__proto__: x'))).toEqual([['__proto__', 'x']]);
  });

  it.each([['no header at all'], [': no name'], ['two words: x'], ['ä: x']])('refuse %j and name it', (line) => {
    expect(() => headerLines.read(`x-a: 1\n${line}`)).toThrow(line);
  });

  it('name a very long line by its beginning', () => {
    expect(() => headerLines.read('x'.repeat(10_000))).toThrow(/^"x{80}"/);
  });

  it.each([['Host'], ['content-length'], ['Authorization'], ['sec-fetch-mode'], ['Proxy-Connection'], ['cookie']])(
    'leave out %s, which a page must not or cannot set',
    (name) => {
      expect(headerLines.write({ [name]: 'x', 'x-kept': 'y' })).toBe('x-kept: y');
    },
  );

  it('come back as they were written', () => {
    const name = fc.stringMatching(/^x-[a-z0-9_-]{1,12}$/);
    const value = fc.stringMatching(/^[!-~]([ -~]{0,20}[!-~])?$/);
    fc.assert(
      fc.property(fc.dictionary(name, value), (headers) => {
        expect(headerLines.read(headerLines.write(headers))).toEqual({ ...headers });
      }),
    );
  });
});
