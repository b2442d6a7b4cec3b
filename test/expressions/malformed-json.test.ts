import { describe, expect, it } from 'vitest';
import { ArrivingBody } from '../../src/expressions/trigger-body.ts';

describe('a body that says it is JSON and is not', () => {
  it.each([
    ['application/json', '{"a":', true],
    ['application/vnd.api+json; v=1', 'a=1', true],
    ['application/json', '{"a":1}', false],
    ['application/json', '', false],
    ['application/x-www-form-urlencoded', '{"a":', false],
    [undefined, '{"a":', false],
    ['bad type', '{"a":', false],
  ])('under %o the body %o: %s', (contentType, body, expected) => {
    expect(new ArrivingBody(Buffer.from(body), { contentType }).isMalformed()).toBe(expected);
  });

  it('is asked of each body alone: what one broke off in leaves nothing for the next', () => {
    const json = 'application/json';
    for (const broken of [Buffer.from('"é"').subarray(0, 2), Buffer.from([0xff])]) {
      expect(new ArrivingBody(broken, { contentType: json }).isMalformed()).toBe(true);
      expect(new ArrivingBody(Buffer.from('"é"'), { contentType: json }).isMalformed()).toBe(false);
    }
  });
});
