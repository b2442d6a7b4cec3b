import { describe, expect, it } from 'vitest';
import { calledUrl } from '../../../src/webhooks/gates/signature.ts';
import { displayUrl, signedUrls } from '../../../src/webhooks/schemes/signed-payload.ts';
import { part } from '../../../src/webhooks/schemes/spec.ts';

it.each([
  ['https://a.example/p?q=1', ['https://a.example/p?q=1', 'https://a.example:443/p?q=1']],
  ['http://a.example', ['http://a.example', 'http://a.example:80']],
  ['wss://a.example/ws', ['wss://a.example/ws', 'wss://a.example:443/ws']],
  ['https://a.example:1234/p', ['https://a.example:1234/p', 'https://a.example/p']],
  ['https://user:pass@a.example/p', ['https://user:pass@a.example/p', 'https://user:pass@a.example:443/p']],
  ['https://user:1@a.example:9/p', ['https://user:1@a.example:9/p', 'https://user:1@a.example/p']],
  ['https://[::1]/p', ['https://[::1]/p', 'https://[::1]:443/p']],
  ['https://[::1]:8443/p', ['https://[::1]:8443/p', 'https://[::1]/p']],
  [
    "https://a.example/p?Body=It's+a:80",
    ["https://a.example/p?Body=It's+a:80", "https://a.example:443/p?Body=It's+a:80"],
  ],
  ['gopher://a.example/', ['gopher://a.example/']],
  ['nonsense', ['nonsense']],
])('knows how %s may have been signed', (url, variants) => {
  expect(signedUrls({ ...part.url, hasPortVariants: true }, url)).toEqual(variants);
});

describe('the public URL', () => {
  const request = { path: '/in/x?b=2', requestUrl: 'http://10.0.0.1:3000/in/x?b=2' };

  it.each([
    [
      'the configured one with the query of the request',
      'https://h.example/pub',
      undefined,
      'https://h.example/pub?b=2',
    ],
    ['the configured one with its own query', 'https://h.example/pub?a=1', undefined, 'https://h.example/pub?a=1'],
    [
      'the configured one before the base URL',
      'https://h.example/pub?',
      'https://base.example',
      'https://h.example/pub?b=2',
    ],
    ['without the fragment', 'https://h.example/pub#rc=2', undefined, 'https://h.example/pub?b=2'],
    ['the base URL and the path', undefined, 'https://base.example', 'https://base.example/in/x?b=2'],
    ['the base URL with a slash at its end', undefined, 'https://base.example/', 'https://base.example/in/x?b=2'],
    ['what the request tells', undefined, undefined, 'http://10.0.0.1:3000/in/x?b=2'],
  ])('is %s', (_, configuredUrl, baseUrl, expected) => {
    expect(calledUrl({ configuredUrl, baseUrl, ...request }).url).toBe(expected);
  });

  it('takes over what the publisher added to the configured query', () => {
    const { url } = calledUrl({
      configuredUrl: 'https://h.example/pub?a=1',
      baseUrl: undefined,
      path: '/in?a=1&bodySHA256=ff',
      requestUrl: '',
    });
    expect(url).toBe('https://h.example/pub?a=1&bodySHA256=ff');
  });

  it('does not take a query for a continuation that only begins alike', () => {
    const { url } = calledUrl({
      configuredUrl: 'https://h.example/?a=1',
      baseUrl: undefined,
      path: '/?a=12',
      requestUrl: '',
    });
    expect(url).toBe('https://h.example/?a=1');
  });
});

it('shows a person no user information and no query', () => {
  expect(displayUrl('https://user:secret@h.example/p?token=secret#x')).toBe('https://h.example/p');
  expect(displayUrl('secret')).not.toContain('secret');
});
