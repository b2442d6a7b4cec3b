import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { readJson } from '../../src/manifest/json-text.ts';

describe('refuses', () => {
  test.each([
    ['no text', '', 'line 1, column 1: value expected'],
    ['a trailing comma', '{\n  "id": 1,\n}', 'line 3, column 1: property name expected'],
    ['a comment', '{} // x', 'line 1, column 4: comments are not accepted'],
    ['a block comment', '{/* x */}', 'line 1, column 2: comments are not accepted'],
    ['text after the end', '{} {}', 'line 1, column 4: end of file expected'],
    ['single quotes', "{'id': 1}", 'line 1, column 2: invalid symbol'],
    ['a missing comma', '{"a": 1 "b": 2}', 'line 1, column 9: comma expected'],
    ['an open object', '{"a": {', 'close brace expected'],
    ['a leading zero', '[01]', 'line 1, column 3'],
    ['NaN', '[NaN]', 'line 1, column 2: invalid symbol'],
    ['a line break in a string', '["x\ny"]', 'line 1, column 2: unexpected end of string'],
    ['a tab in a string', '["x\ty"]', 'line 1, column 2: invalid character'],
    ['a bad escape', '["\\x"]', 'line 1, column 2: invalid escape character'],
    ['101 levels', '['.repeat(101) + ']'.repeat(101), 'is nested deeper than 100 levels'],
    ['more levels than the call stack has', '['.repeat(200_000), 'is nested deeper than 100 levels'],
  ])('%s', (_rule, text, message) => {
    const { value, problems } = readJson(text);
    expect(value).toBeUndefined();
    const [{ line, column, message: told } = { message: '' }] = problems;
    expect(`line ${line}, column ${column}: ${told}`).toContain(message);
  });
});

test.each([
  ['a key', '{"a": 1,\n"a": 2}', 'a', 2],
  ['a key in a list', '[0, {"b": {"a": 1, "a": 2}}]', '[1].b.a', 1],
  ['a key in another escape', '{"a": 1, "\\u0061": 2}', 'a', 1],
  ['__proto__', '{"__proto__": 1, "__proto__": 2}', '__proto__', 1],
])('reports %s given twice', (_rule, text, path, line) => {
  expect(readJson(text).problems).toEqual([
    { severity: 'error', path, message: `is given twice, again on line ${line}` },
  ]);
});

test.each(['9007199254740993', '-12345678901234567890'])('reports that a double would change %s', (digits) => {
  expect(readJson(`{"a":\n[1e30, 9007199254740991, ${digits}]}`).problems).toEqual([
    {
      severity: 'error',
      path: 'a[2]',
      message: `line 2: ${digits} cannot be represented exactly; write it as "${digits}"`,
    },
  ]);
});

it('accepts the same key in several objects', () => {
  expect(readJson('{"a": {"a": [{"a": 1}, {"a": 2}]}}').problems).toEqual([]);
});

it('drops a byte order mark', () => {
  expect(readJson('\uFEFF{"a": 1}')).toEqual({ value: { a: 1 }, problems: [] });
});

it('never quotes the text', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 30 }), (noise) => {
      const { problems } = readJson(`{"webhookHmacKey": "sw0rdfish" ${noise} "sw0rdfish"`);
      expect(JSON.stringify(problems)).not.toContain('sw0rdfish');
    }),
  );
});

it('agrees with the engine on what is JSON', () => {
  const token = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '1',
    '-',
    '.',
    'e',
    '0',
    'true',
    'null',
    ' ',
    '\\',
    '"',
  );
  fc.assert(
    fc.property(fc.array(token, { maxLength: 8 }), (tokens) => {
      const text = tokens.join('');
      expect(readJson(text).value).toEqual(engineReads(text));
    }),
    { numRuns: 2000 },
  );
});

function engineReads(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
