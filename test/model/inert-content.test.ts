import { describe, expect, it } from 'vitest';
import { asInert, inertType, isOfReceiveEndpoint, PLAIN_TEXT } from '../../src/model/inert-content.ts';

describe('content that others wrote', () => {
  it.each([
    ['application/json', 'application/json'],
    ['text/json', 'text/json'],
    ['application/problem+json', 'application/problem+json'],
    ['application/vnd.acme.v1+json; charset=utf-8', 'application/vnd.acme.v1+json; charset=utf-8'],
    ['text/plain', 'text/plain'],
    ['text/csv', 'text/csv'],
    [' TEXT/Plain\t', 'text/plain'],
  ])('is sent as it is given: %j', (given, sent) => {
    expect(inertType(given)).toBe(sent);
  });

  it.each([
    'text/plain; charset=utf-7',
    'text/plain;charset=ISO-2022-JP',
    'text/plain; charset="utf-16"',
    'text/plain; charset=utf-8; charset=utf-7',
    'text/plain; x=", text/html"',
    'text/plain; x=y, text/html',
    'text/plain;',
  ])('is in UTF-8, and has no other parameter: %j', (given) => {
    expect(inertType(given)).toBe(PLAIN_TEXT);
  });

  it.each([
    'text/xml',
    'application/xml',
    'Application/XML; charset=utf-7',
    'application/soap+xml',
    'application/rss+xml',
  ])('is plain text if it is XML: %j', (given) => {
    expect(inertType(given)).toBe(PLAIN_TEXT);
  });

  it.each([
    'text/html',
    'TEXT/HTML; charset=utf-7',
    'text/html;',
    ' text/html',
    'application/xhtml+xml',
    'image/svg+xml',
    'text/xsl',
    'text/javascript',
    'application/javascript',
    'text/css',
    'text/event-stream',
    'text/vtt',
    'multipart/x-mixed-replace; boundary=a',
    'multipart/related',
    'message/rfc822',
    'application/pdf',
    'application/wasm',
    'application/octet-stream',
    'application/x-unknown',
    'text/plain, text/html',
    'text/plain\ntext/html',
    'text/plain text/html',
    'text/plain/html',
    'text/plain\u00a0',
    'text/html+json',
    'image/svg+xml+json',
    'application/json+html',
    'json',
    '*/*',
    '/',
    '',
  ])('is never sent as %j', (given) => {
    expect(inertType(given)).toBeUndefined();
    expect(asInert({ contentType: given })).toEqual({ contentType: PLAIN_TEXT });
  });
});

it.each([
  ['/flows/api/webhook', true],
  ['/flows/api/webhook/', true],
  ['/flows/api/webhook?a', true],
  ['/flows/api/webhook/push/more', true],
  ['/flows/api/webhooks', false],
  ['/flows', false],
])('%s is below the receive endpoint: %s', (url, expected) => {
  expect(isOfReceiveEndpoint(url)).toBe(expected);
});
