import { expect, it } from 'vitest';
import { sentence } from '../../../src/dashboard/web/spelling.ts';

it.each([
  ['no signature matches', 'No signature matches.'],
  ['Is it 1.5?', 'Is it 1.5?'],
])('makes a sentence of %j', (text, expected) => {
  expect(sentence(text)).toBe(expected);
});
