// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.

import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { maskerOf } from '../../src/manifest/mask.ts';
import { secretReader } from '../../src/manifest/read-secret.ts';
import { resolveStepSecrets, stepSecrets } from '../../src/manifest/secrets.ts';
import type { Json } from '../../src/model/json.ts';

const secretInputs = ['headers.*', 'auth.password', 'list.*.token', 'url'];
const readSecret = secretReader({ env: { TOKEN: 'Bearer abcdef', ODD: '${trigger.body}' }, baseFolder: '/nowhere' });

describe('secrets of a step', () => {
  test.each<[string, Json, [string, string][]]>([
    ['references', { headers: { any: 'env:TOKEN' } }, [['headers.any', 'env:TOKEN']]],
    ['references in any case', { headers: { any: 'File:x' } }, [['headers.any', 'File:x']]],
    ['literals that look like credentials', { headers: { 'X-Api-Key': 'k' } }, [['headers.X-Api-Key', 'k']]],
    ['by whole path', { auth: { password: 'p' } }, [['auth.password', 'p']]],
    [
      'inside lists',
      { list: [{ token: 'a' }, { token: 'b' }] },
      [
        ['list.0.token', 'a'],
        ['list.1.token', 'b'],
      ],
    ],
    [
      'URLs with a credential in them',
      { url: 'https://a.example/?a=1&token=b' },
      [['url', 'https://a.example/?a=1&token=b']],
    ],
    ['no other URLs', { url: 'https://a.example/tokens?wsdl&page=2' }, []],
    ['no other literals', { headers: { accept: 'a', 'content-type': 'b' } }, []],
    ['nothing elsewhere', { link: 'env:TOKEN', body: { authorization: 'a', headers: { cookie: 'b' } } }, []],
    ['nothing deeper', { headers: { cookie: { a: 'b' } } }, []],
    ['nothing with a placeholder', { headers: { cookie: '${trigger.body.a}' } }, []],
    ['nothing empty', { headers: { cookie: '' } }, []],
  ])('%s', (_rule, inputs, expected) => {
    const found = stepSecrets(inputs, secretInputs);
    expect(found.map(({ path, text }) => [path.join('.'), text])).toEqual(expected);
  });
});

describe('resolving the secrets of a step', () => {
  const resolve = (written: Json, rendered: Json = written) =>
    resolveStepSecrets({ written, rendered, secretInputs, readSecret });

  it('puts values in the place of references, and names what is secret', () => {
    const inputs = { link: 'env:TOKEN', headers: { authorization: 'env:TOKEN', cookie: 'plain', accept: 'x' } };
    expect(resolve(inputs)).toEqual({
      inputs: { link: 'env:TOKEN', headers: { authorization: 'Bearer abcdef', cookie: 'plain', accept: 'x' } },
      secrets: ['Bearer abcdef', 'plain'],
    });
  });

  it('gives no secret to a delivery whose data looks like a reference', () => {
    const written = { headers: { authorization: '${trigger.body.a}', 'x-any': '${trigger.body.b}' } };
    const rendered = { headers: { authorization: 'env:TOKEN', 'x-any': 'file:/etc/passwd' } };
    expect(resolve(written, rendered)).toEqual({ inputs: rendered, secrets: [] });
    expect(resolve({ headers: '${trigger.body}' }, rendered)).toEqual({ inputs: rendered, secrets: [] });
  });

  it('names only the credentials of a URL that is written out: its path is public in the manifest', () => {
    const url = 'https://a.example/orders/123456789?page=2&api_key=p%26w';
    expect(resolve({ url })).toEqual({ inputs: { url }, secrets: ['p&w'] });
  });

  it('does not read a secret as a template', () => {
    expect(resolve({ headers: { a: 'env:ODD' } })).toMatchObject({ inputs: { headers: { a: '${trigger.body}' } } });
  });

  it('names the place of a secret that is not there', () => {
    const error = 'inputs.headers.x-key: the environment variable GONE is not set';
    expect(resolve({ headers: { 'x-key': 'env:GONE' } })).toEqual({ error });
  });
});

describe('masking', () => {
  test.each<[string, Json, string[], Json]>([
    ['every occurrence', 'a secret, a secret', ['secret'], 'a ***, a ***'],
    ['in lists, objects and keys', { a: ['xsecretx'], secret: 1 }, ['secret'], { a: ['x***x'], '***': 1 }],
    ['no secret shorter than four', 'abc abcd', ['abc'], 'abc abcd'],
    ['the longest match', 'abcdefgh', ['abcd', 'abcdefgh'], '***'],
    ['overlapping secrets as one', 'xxabcdefxx', ['abcd', 'cdef'], 'xx***xx'],
    ['neighbours', 'aaaabbbb', ['aaaa', 'bbbb'], '******'],
    ['the credential of an authorization', { token: 'abcdef' }, ['Bearer abcdef'], { token: '***' }],
    ['a secret in a JSON text', '{"a":"p\\"w\\\\d"}', ['p"w\\d'], '{"a":"***"}'],
    ['a secret in a URL', '/?a=p%26w%20d&b=p%26w+d', ['p&w d'], '/?a=***&b=***'],
    ['nothing but strings', [1234, true, null], ['1234', 'true'], [1234, true, null]],
    ['a lone surrogate', 'a\ud800bcd', ['a\ud800bcd'], '***'],
  ])('%s', (_rule, value, secrets, expected) => {
    expect(maskerOf(secrets)(value)).toEqual(expected);
  });

  it('leaves no occurrence of any secret', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', '"', '\\', '/', ' ', 'é'), minLength: 4, maxLength: 8 });
    const secretText = fc
      .tuple(fc.array(word, { minLength: 1, maxLength: 3 }), fc.array(fc.nat(9), { maxLength: 8 }))
      .map(([secrets, order]) => ({ secrets, text: order.map((index) => secrets[index] ?? 'ab ').join('') }));
    fc.assert(
      fc.property(secretText, ({ secrets, text }) => {
        const value: Json = { plain: text, nested: [{ [text]: JSON.stringify(text) }], url: encodeURIComponent(text) };
        for (const string of stringsOf(maskerOf(secrets)(value))) {
          for (const secret of secrets) expect(string).not.toContain(secret);
        }
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    ['TenantAbc0123', 'connect to tenantabc0123.example.com failed', 'connect to ***.example.com failed'],
    ['Ten-Ant.Example', 'getaddrinfo ENOTFOUND ten-ant.example', 'getaddrinfo ENOTFOUND ***'],
    ['ABC', 'abc', 'abc'],
    ['User', 'the user of users', 'the user of users'],
    ['Production', 'in production', 'in production'],
    ['Tenant/Abc0123', 'tenant/abc0123', 'tenant/abc0123'],
  ])('of %s in a host, which is lower-case: %s', (secret, text, expected) => {
    expect(maskerOf([secret])(text)).toBe(expected);
    expect(maskerOf([secret])(secret)).toBe(secret.length < 4 ? secret : '***');
  });

  const URL_SECRET = 'https://hooks.example.com/services/T01234567/p%20th-Secret?token=t%26k3n&team=north-4711&v=2';

  test.each<[string, string, string]>([
    ['the whole', URL_SECRET, '***'],
    ['its path', 'POST /services/T01234567/p%20th-Secret', 'POST /***'],
    ['its path decoded', '/services/T01234567/p th-Secret', '/***'],
    ['one segment', 'no route T01234567', 'no route ***'],
    ['its query', 'token=t%26k3n&team=north-4711&v=2', '***'],
    ['a short value that its name calls a credential', '{"token":"t&k3n"}', '{"token":"***"}'],
    ['another value', 'team north-4711', 'team ***'],
    ['no segment that is a plain word', '/services', '/services'],
    ['no short value', 'v 2', 'v 2'],
    ['not its host', 'POST hooks.example.com answered 500', 'POST hooks.example.com answered 500'],
  ])('of a secret URL %s', (_rule, text, expected) => {
    expect(maskerOf([URL_SECRET])(text)).toBe(expected);
  });

  test.each<[string, string, string]>([
    ['user and password of Basic', `Basic ${btoa('shop:s3cret/pass')}`, 'shop:s3cret/pass'],
    ['the password of Basic', `Basic ${btoa('shop:s3cret/pass')}`, 's3cret/pass'],
    ['the value of a cookie', 'theme=dark; sid=4f9d0b2c71', '4f9d0b2c71'],
    ['a quoted parameter', 'Digest username="shop", response="6629fae49393a053"', '6629fae49393a053'],
  ])('of a secret header %s', (_rule, secret, part) => {
    expect(maskerOf([secret])(`<${part}>`)).toBe('<***>');
  });

  test.each<[string, string]>([
    ['percent-encoded in capitals', 'p%2FW%22%C3%A9'],
    ['percent-encoded in small letters', 'p%2fW%22%c3%a9'],
    ['percent-encoded whole', '%70%2F%57%22%C3%A9'],
    ['percent-encoded twice', 'p%252FW%2522%25C3%25A9'],
    ['escaped for JSON', 'p\\/W\\"é'],
    ['escaped for JSON in letters', 'p\\u002fW\\u0022\\u00E9'],
    ['escaped for JSON twice', 'p/W\\\\\\"é'],
    ['escaped for HTML', 'p/W&quot;é'],
    ['escaped for HTML by number', 'p&#x2F;W&#34;é'],
    ['in hex', Buffer.from('p/W"é').toString('hex')],
    ['in HEX', Buffer.from('p/W"é').toString('hex').toUpperCase()],
  ])('finds a secret %s', (_rule, spelled) => {
    expect(maskerOf(['p/W"é'])(`<${spelled}>`)).toBe('<***>');
  });

  it('leaves of a secret that was encoded with its neighbours no more than the digits that it shares with them', () => {
    const around = fc.uint8Array({ maxLength: 5 }).map((bytes) => Buffer.from(bytes));
    const secret = fc.string({ unit: 'grapheme', minLength: 8, maxLength: 40 });
    const encoding = fc.constantFrom('base64' as const, 'base64url' as const);
    fc.assert(
      fc.property(around, secret, around, encoding, (before, text, behind, how) => {
        const bytes = Buffer.from(text);
        const encoded = Buffer.concat([before, bytes, behind]).toString(how);
        const masked = String(maskerOf([text])(encoded));
        const first = Math.ceil((before.length * 4) / 3);
        const last = Math.floor(((before.length + bytes.length) * 8) / 6);
        expect(masked).toContain('***');
        expect(masked).not.toContain(encoded.slice(first, last));
      }),
    );
  });

  it('changes nothing without secrets', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json: Json = JSON.parse(JSON.stringify(value));
        expect(maskerOf(['never-in-there-0123456789'])(json)).toEqual(json);
      }),
    );
  });
});

function stringsOf(value: Json): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => [key, ...stringsOf(item)]);
}
