import { describe, expect, it } from 'vitest';
import { isMalformedJson } from '../../src/expressions/trigger-body.ts';

describe('isMalformedJson', () => {
  it.each([
    ['application/json', '{"a":', true],
    ['application/vnd.api+json; v=1', 'a=1', true],
    ['application/json', '{"a":1}', false],
    ['application/json', '', false],
    ['application/x-www-form-urlencoded', '{"a":', false],
    [undefined, '{"a":', false],
    ['bad type', '{"a":', false],
  ])('under %o the body %o: %s', (contentType, body, expected) => {
    expect(isMalformedJson(Buffer.from(body), contentType)).toBe(expected);
  });

  it('is asked of each body alone: what one broke off in leaves nothing for the next', () => {
    const json = 'application/json';
    for (const broken of [Buffer.from('"é"').subarray(0, 2), Buffer.from([0xff])]) {
      expect(isMalformedJson(broken, json)).toBe(true);
      expect(isMalformedJson(Buffer.from('"é"'), json)).toBe(false);
    }
  });
});
