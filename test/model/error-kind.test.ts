import pino from 'pino';
import { expect, it } from 'vitest';
import { codeOf, writable } from '../../src/model/error-kind.ts';

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

const throws = () => {
  throw new Error('read');
};
const withGetter = (name: string) => Object.defineProperty(new Error('odd'), name, { get: throws, enumerable: true });

it.each<[string, unknown, string]>([
  ['that is frozen', Object.freeze(new TypeError('odd')), 'odd'],
  ['with a frozen cause', new Error('odd', { cause: Object.freeze(new Error('first')) }), 'odd: first'],
  ['of several, of which one is frozen', new AggregateError([Object.freeze(new Error('first'))], 'odd'), 'odd'],
  ['with a property that throws', withGetter('extra'), 'odd'],
  ['whose class throws', withGetter('constructor'), 'odd'],
  ['with a cause that throws', new Error('odd', { cause: throws }), 'odd: no error'],
  [
    'with a cause whose text throws',
    new Error('odd', { cause: withGetter('stack') }),
    'odd: what was thrown cannot be read',
  ],
  ['whose text throws', withGetter('message'), 'what was thrown cannot be read'],
  ['that is no error and throws', { toJSON: throws }, 'no error'],
  ['that is a text', 'odd', 'odd'],
  ['that is nothing', undefined, 'undefined'],
])('an error %s can be written to a log', (_, thrown, message) => {
  const lines: string[] = [];
  pino({}, { write: (line) => lines.push(line) }).error({ err: writable(thrown) }, 'seen');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ msg: 'seen', err: { message, stack: expect.any(String) } });
});

it('of an endless chain of causes only the first are written', () => {
  const error = new Error('round');
  error.cause = error;
  expect(codeOf(writable(error))).toBe('Error');
});
