import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { readJson } from '../../src/manifest/json-text.ts';

describe('refuses', () => {
  test.each([
    ['no text', '', 'line 1, column 1: value expected'],
    ['two commas at the end', '{\n  "id": 1,,\n}', 'line 2, column 11: property name expected'],
    ['a comma alone', '[,]', 'line 1, column 2: value expected'],
    ['a comma after the end', '{},', 'line 1, column 3: end of file expected'],
    ['nothing but a comment', '// x', 'value expected'],
    ['a comment without an end', '{} /* x', 'line 1, column 4: unexpected end of comment'],
    ['what a comment hides the end of', '{"a": 1 // }', 'close brace expected'],
    ['a mistake behind comments', '{ // x\n /* y\n */ "a": nope }', 'line 3, column 10: invalid symbol'],
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
  expect(readJson('\uFEFF{"a": 1}')).toEqual({ value: { a: 1 }, problems: [], strict: '{"a": 1}' });
});

test.each([
  ['a comment to the end of the line', '{ // "b": 2,\n"a": 1 } // x', { a: 1 }],
  ['a comment in a line', '{"a": /* 2, */ 1, /* */ }', { a: 1 }],
  ['a comma at the end', '{"a": [1, 2,],}', { a: [1, 2] }],
  ['a comma before a comment', '[1, // x\n]', [1]],
  ['what looks like a comment in a text', '{"a": "https://x/*y*/,}"}', { a: 'https://x/*y*/,}' }],
  ['comments behind a byte order mark', '\uFEFF// x\n[]', []],
])('reads %s, and gives strict JSON with every place where it was', (_rule, text, value) => {
  const read = readJson(text);
  expect(read.value).toEqual(value);
  expect(read.problems).toEqual([]);
  expect(JSON.parse(read.strict)).toEqual(value);
  const content = text.replace('\uFEFF', '');
  expect(read.strict).toHaveLength(content.length);
  for (const [at, character] of [...read.strict].entries()) if (character !== ' ') expect(content[at]).toBe(character);
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
      const { value, strict } = readJson(text);
      expect(value).toEqual(engineReads(strict));
      // The only extension of JSON is a trailing comma.
      if (engineReads(text) === undefined && value !== undefined) expect(text).toMatch(/, *[}\]]/);
      else expect(value).toEqual(engineReads(text));
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
