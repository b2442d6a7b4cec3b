import { expect, it, test } from 'vitest';
import { isExactNumber, jsonProblem, parseJson } from '../../../src/dashboard/web/json.ts';

it('shows numbers as they were sent', () => {
  const text = '{"id":12345678901234567890,"paid":1.10,"list":[1e400,2],"text":"12345678901234567890"}';
  expect(JSON.stringify(parseJson(text))).toBe(text);
  expect(isExactNumber(Reflect.get(Object(parseJson(text)), 'id'))).toBe(true);
});

test.each(['{"a":[1,2.5,"x",null]}', `[${'1.10,'.repeat(60_000)}1]`])('reads %.30s as JSON.parse does', (text) => {
  expect(parseJson(text)).toEqual(JSON.parse(text));
});

it.each([
  ['', true],
  [' ', true],
  ['{ "a": 1 }', true],
  ['null', true],
  ['{ a: 1 }', false],
  ['{', false],
])('%j may be sent: %s', (text, isJson) => {
  expect(jsonProblem(text) === null).toBe(isJson);
});
