import { describe, expect, it, test } from 'vitest';
import { isMasked, maskUrl } from '../../src/manifest/mask.ts';

describe('a masked URL', () => {
  test.each([
    ['https://a.example/in', 'https://a.example/in'],
    ['https://u:p@a.example/in', 'https://***@a.example/in'],
    ['https://u@a.example', 'https://***@a.example'],
    ['https://u:p@x@a.example/b@c', 'https://***@a.example/b@c'],
    ['https://a.example/in?src=a&token=b&c', 'https://a.example/in?src=***&token=***&***'],
    ['https://a.example/in?a=b=c#d', 'https://a.example/in?a=***#***'],
    ['https://a.example/?', 'https://a.example/?'],
    ['/in?a=b', '/in?a=***'],
  ])('of %s is %s, and masked again it stays so', (url, masked) => {
    expect(maskUrl(url)).toBe(masked);
    expect(maskUrl(masked)).toBe(masked);
    expect(isMasked(masked)).toBe(masked.includes('***') && masked.startsWith('https'));
    expect(isMasked(url)).toBe(false);
  });

  it('is not confused with other text that has stars', () => {
    expect(['****', 'a ***', 'https://a.example/***', 'https://a.example/?a=****'].filter(isMasked)).toEqual([]);
  });
});
