// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders in plain strings are what manifests hold.
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { maskSecrets } from '../../src/manifest/mask-secrets.ts';
import { secretReader } from '../../src/manifest/read-secret.ts';
import { resolveStepSecrets, stepSecrets } from '../../src/manifest/secrets.ts';
import type { Json } from '../../src/model/json.ts';

const secretInputs = ['headers.*', 'auth.password', 'list.*.token'];
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
    ['no other literals', { headers: { accept: 'a', 'content-type': 'b' } }, []],
    ['nothing elsewhere', { url: 'env:TOKEN', body: { authorization: 'a', headers: { cookie: 'b' } } }, []],
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
    const inputs = { url: 'env:TOKEN', headers: { authorization: 'env:TOKEN', cookie: 'plain', accept: 'x' } };
    expect(resolve(inputs)).toEqual({
      inputs: { url: 'env:TOKEN', headers: { authorization: 'Bearer abcdef', cookie: 'plain', accept: 'x' } },
      secrets: ['Bearer abcdef', 'plain'],
    });
  });

  it('gives no secret to a delivery whose data looks like a reference', () => {
    const written = { headers: { authorization: '${trigger.body.a}', 'x-any': '${trigger.body.b}' } };
    const rendered = { headers: { authorization: 'env:TOKEN', 'x-any': 'file:/etc/passwd' } };
    expect(resolve(written, rendered)).toEqual({ inputs: rendered, secrets: [] });
    expect(resolve({ headers: '${trigger.body}' }, rendered)).toEqual({ inputs: rendered, secrets: [] });
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
    expect(maskSecrets(value, secrets)).toEqual(expected);
  });

  it('leaves no occurrence of any secret', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', '"', '\\', '/', ' ', 'é'), minLength: 4, maxLength: 8 });
    const secretText = fc
      .tuple(fc.array(word, { minLength: 1, maxLength: 3 }), fc.array(fc.nat(9), { maxLength: 8 }))
      .map(([secrets, order]) => ({ secrets, text: order.map((index) => secrets[index] ?? 'ab ').join('') }));
    fc.assert(
      fc.property(secretText, ({ secrets, text }) => {
        const value: Json = { plain: text, nested: [{ [text]: JSON.stringify(text) }], url: encodeURIComponent(text) };
        for (const string of stringsOf(maskSecrets(value, secrets))) {
          for (const secret of secrets) expect(string).not.toContain(secret);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('changes nothing where there is no secret', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json: Json = JSON.parse(JSON.stringify(value));
        expect(maskSecrets(json, ['never-in-there-0123456789'])).toEqual(json);
      }),
    );
  });
});

function stringsOf(value: Json): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) => [key, ...stringsOf(item)]);
}
