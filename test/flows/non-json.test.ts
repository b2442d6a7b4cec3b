import fc from 'fast-check';
import { expect, it } from 'vitest';
import { problemOfJson } from '../../src/flows/non-json.ts';
import { anyCharacter } from '../any-character.ts';

it('measures any JSON as it is written, and refuses it with one byte less', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: anyCharacter }), (value) => {
      const bytes = Buffer.byteLength(JSON.stringify(value));
      expect(problemOfJson(value, 'value', bytes)).toBeUndefined();
      expect(problemOfJson(value, 'value', bytes - 1)).toMatchObject({ kind: 'tooLarge' });
    }),
  );
});

it('leaves a list that names one body a million times over before it has walked it', () => {
  let walked = 0;
  const body = new Proxy([1, 2, 3], {
    get(target, key) {
      if (key === '0') walked += 1;
      return Reflect.get(target, key);
    },
  });
  const row = Array.from({ length: 1000 }, () => body);
  const all = Array.from({ length: 1000 }, () => row);
  expect(problemOfJson(all, 'value', 8000)).toMatchObject({ kind: 'tooLarge' });
  expect(walked).toBeLessThan(1100);
});
