import { expect, test } from 'vitest';
import { strictJson } from '../../../src/features/deploy-page/strict-json.ts';
import { readJson } from '../../../src/manifest/json-text.ts';

test.each([
  '{ // "b": 2,\n"a": 1 } // x',
  '{"a": /* 2, */ 1, /* */ }',
  '{"a": [1, 2,],}',
  '{"a": "https://x/*y*/,}", "b": "\\\\" /* " */}',
  '[1, // x\n]',
])('the page makes of %j what the service does', (text) => {
  expect(strictJson(text)).toBe(readJson(text).strict);
});

test('a text that is cut off stays as it is', () => {
  expect(strictJson('{"a": "b // c')).toBe('{"a": "b // c');
});
