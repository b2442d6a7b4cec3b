import { expect, it } from 'vitest';
import { codeOf } from '../../src/model/error-kind.ts';

const coded = Object.assign(new Error('no'), { code: 'ECONNREFUSED' });

it.each<[string, unknown, string]>([
  ['its code', coded, 'ECONNREFUSED'],
  [
    'the code of what caused it, at any distance',
    new Error('a', { cause: new Error('b', { cause: coded }) }),
    'ECONNREFUSED',
  ],
  ['its name, where it has one of its own', new TypeError('a', { cause: coded }), 'TypeError'],
  ['its name, where nothing has a code', new Error('a', { cause: 'text' }), 'Error'],
  ['unknown, where it is no error', { code: 'E' }, 'unknown'],
])('a fault is called by %s', (_, error, code) => {
  expect(codeOf(error)).toBe(code);
});

it.each([1, 2, 3])('causes that lead round in a circle of %i end', (length) => {
  const errors = Array.from({ length }, () => new Error('round'));
  for (const [at, error] of errors.entries()) error.cause = errors[(at + 1) % length];
  expect(codeOf(errors[0])).toBe('Error');
});

it('a chain of causes longer than the stack is followed to its end', () => {
  let error: Error = coded;
  const frames = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  for (let depth = 0; depth < 50_000; depth += 1) error = new Error('again', { cause: error });
  Error.stackTraceLimit = frames;
  expect(codeOf(error)).toBe('ECONNREFUSED');
});
