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
});
