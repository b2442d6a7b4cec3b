import { describe, expect, it } from 'vitest';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import {
  createSchemeRegistry,
  findScheme,
  type NamedSignatureSpec,
  resolveScheme,
  type SchemeOptions,
} from '../../../src/webhooks/schemes/resolve.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import type { SignatureSpec, SignatureVerifier } from '../../../src/webhooks/schemes/spec.ts';
import { builtIn, judge, NOW, received, settingsOf } from './fixtures.ts';

const verifier = (name: string): SignatureVerifier => ({ name, verify: () => ({ outcome: 'verified' }) });
const short = (name: string, rest: Partial<NamedSignatureSpec> = {}): NamedSignatureSpec => ({
  name,
  headerName: 'X-Named',
  algorithm: 'sha256',
  encoding: 'base64',
  signedPayloadStrategy: 'RawBody',
  ...rest,
});

function resolvedName(options: SchemeOptions, name: string): string {
  const scheme = resolveScheme(createSchemeRegistry(options), {
    webhookSignatureScheme: name,
    webhookSignatureHeader: 'X-Custom',
  });
  if (scheme === undefined) return 'nothing';
  if (scheme.kind === 'verifier') return `verifier ${scheme.verifier.name}`;
  if (scheme.kind === 'standard') return `standard ${scheme.standard.name} in ${scheme.standard.headers[0]}`;
  return `spec ${scheme.spec.name} in ${scheme.spec.headers[0]?.signature}`;
}

describe('a name means', () => {
  it.each<[string, SchemeOptions, string, string]>([
    [
      'a registered verifier before a registered spec',
      { verifiers: [verifier('Mine')], specs: [short('Mine')] },
      'mine',
      'verifier Mine',
    ],
    ['a registered spec before a built-in', { specs: [short('GitHub')] }, 'GITHUB', 'spec GitHub in X-Named'],
    ['a registered spec before an alias of a built-in', { specs: [short('Svix')] }, 'svix', 'spec Svix in X-Named'],
    ['a built-in', {}, ' github ', 'spec GitHub in X-Hub-Signature-256'],
    ['a built-in by its alias', {}, 'SVIX', 'spec StandardWebhooks in webhook-signature'],
    ['the fields of the trigger', {}, 'custom', 'spec Custom in X-Custom'],
    ['a token of the trigger', {}, 'token', 'spec Token in X-Custom'],
    ['a standard', {}, 'jwt', 'standard Jwt in X-Custom'],
    ['nothing when nobody knows it', {}, 'GitHubb', 'nothing'],
    ['nothing when it is empty', {}, '', 'nothing'],
    ['nothing when it is a property of every object', {}, '__proto__', 'nothing'],
  ])('%s', (_, options, name, expected) => {
    expect(resolvedName(options, name)).toBe(expected);
    expect(findScheme(createSchemeRegistry(options), name) !== undefined).toBe(expected !== 'nothing');
  });

  it('nothing without a name', () => {
    expect(resolveScheme(createSchemeRegistry(), {})).toBeUndefined();
  });
});

describe('a registration is refused', () => {
  it.each(['GitHub', 'github', 'SVIX', 'Basic', 'JWT', 'Custom', 'cUSTOM', 'standardwebhooks'])(
    'for a verifier with the built-in name %s',
    (name) => {
      expect(() => createSchemeRegistry({ verifiers: [verifier(name)] })).toThrow(TypeError);
    },
  );

  it.each<[string, SchemeOptions]>([
    ['for two verifiers of one name', { verifiers: [verifier('a'), verifier('A')] }],
    ['for two specs of one name', { specs: [short('a'), short('A')] }],
    ['for an alias that another spec has', { specs: [short('a'), { ...builtIn('GitHub'), aliases: ['A'] }] }],
    ['for a verifier without a name', { verifiers: [verifier(' ')] }],
    ['for a spec whose header is not a header name', { specs: [short('a', { headerName: 'X Named' })] }],
    ['for an algorithm that is not known', { specs: [short('a', { algorithm: 'md5' as 'sha1' })] }],
    ['for an encoding that is not known', { specs: [short('a', { encoding: 'hex' as 'hexLower' })] }],
    ['for a strategy that is not known', { specs: [short('a', { signedPayloadStrategy: 'Body' as 'RawBody' })] }],
    ['for a full spec without a place for the signature', { specs: [{ ...builtIn('GitHub'), headers: [] }] }],
    ['for a full spec without a place for its timestamp', { specs: [{ ...builtIn('Slack'), timestamp: undefined }] }],
    [
      'for a full spec whose timestamp header is not named',
      { specs: [{ ...builtIn('Slack'), headers: [{ signature: 'X-Slack-Signature' }] }] },
    ],
    [
      'for a full spec whose timestamp is in a list that it does not take apart',
      { specs: [{ ...builtIn('Stripe'), multiValue: undefined }] },
    ],
    [
      'for a full spec that signs a part that is not known',
      { specs: [{ ...builtIn('GitHub'), signs: [{ part: 'Body' as 'body' }] }] },
    ],
    [
      'for a full spec whose timestamp and body could be cut elsewhere',
      { specs: [{ ...builtIn('Discord'), timestamp: { in: 'header', unit: 'seconds' } }] },
    ],
    [
      'for a full spec whose id and timestamp could be cut elsewhere',
      { specs: [{ ...builtIn('Twitch'), timestamp: { in: 'header', unit: 'seconds', length: 10 } }] },
    ],
    [
      'for a full spec whose builder is not registered',
      { specs: [{ ...builtIn('GitHub'), signs: [{ part: 'built', name: 'none' }] }] },
    ],
    [
      'for a full spec with an empty delimiter',
      {
        specs: [
          {
            ...builtIn('GitHub'),
            multiValue: { delimiter: '', keyValueSeparator: '=', valueKeys: ['a'], acceptsMultiple: false },
          },
        ],
      },
    ],
  ])('%s', (_, options) => {
    expect(() => createSchemeRegistry(options)).toThrow(TypeError);
  });

  it('for no built-in scheme', () => {
    for (const spec of BUILT_IN_SCHEMES) expect(() => createSchemeRegistry({ specs: [spec] }), spec.name).not.toThrow();
  });
});

describe('a registered spec', () => {
  const request = {
    key: 'key',
    body: Buffer.from('{"a":1}'),
    url: 'http://a.example/',
    timestampMs: NOW,
    deliveryId: 'x',
  };

  it('in short takes what it does not say from the trigger', async () => {
    const settings = settingsOf({
      specs: [
        short('Mine', {
          algorithm: 'Sha512',
          encoding: 'HexLower',
          prefix: 'sig=',
          signedPayloadStrategy: 'TimestampDotBody',
        }),
      ],
    });
    const inputs = { webhookSignatureScheme: 'mine', webhookTimestampHeader: 'X-Time' };
    const scheme = resolveScheme(settings.schemes, inputs);
    if (scheme?.kind !== 'spec') throw new Error('no spec');
    const signed = signDelivery({ ...request, spec: scheme.spec });
    expect(signed.headers['X-Named']).toMatch(/^sig=[0-9a-f]{128}$/);
    expect(await judge({ inputs, key: 'key', settings }, received(signed))).toMatchObject({
      passed: true,
      evidence: { scheme: 'Mine', signedTimestamp: { ms: NOW } },
    });
  });

  it('in full may use a registered builder', async () => {
    const spec: SignatureSpec = {
      ...builtIn('GitHub'),
      name: 'Reversed',
      signs: [{ part: 'built', name: 'reversed' }],
    };
    const settings = settingsOf({
      specs: [spec],
      payloadBuilders: { reversed: ({ delivery }) => Buffer.from(delivery.body).reverse() },
    });
    const inputs = { webhookSignatureScheme: 'Reversed' };
    const scheme = resolveScheme(settings.schemes, inputs);
    if (scheme?.kind !== 'spec') throw new Error('no spec');
    const signed = signDelivery({ ...request, spec: scheme.spec });
    expect(signed.headers).not.toEqual(signDelivery({ ...request, spec: builtIn('GitHub') }).headers);
    expect(await judge({ inputs, key: 'key', settings }, received(signed))).toMatchObject({ passed: true });
  });

  it('with SHA-1 needs the switch too', async () => {
    const settings = settingsOf({ specs: [short('Old', { algorithm: 'Sha1' })] }, { allowLegacySha1: false });
    const delivery = received({ headers: {}, body: Buffer.alloc(0), url: 'http://a.example/' });
    expect(await judge({ inputs: { webhookSignatureScheme: 'Old' }, key: 'key', settings }, delivery)).toMatchObject({
      reason: 'sha1_not_allowed',
    });
  });

  it('in full answers to its aliases', () => {
    const { schemes } = settingsOf({ specs: [{ ...builtIn('GitHub'), name: 'Forge', aliases: ['Gitea'] }] });
    expect(findScheme(schemes, 'gitea')?.name).toBe('Forge');
    const resolved = resolveScheme(schemes, { webhookSignatureScheme: 'GITEA' });
    expect(resolved).toMatchObject({ kind: 'spec', spec: { name: 'Forge' } });
  });
});

it.each(BUILT_IN_SCHEMES.flatMap(({ name, aliases = [] }) => [name, ...aliases].map((word) => [word, name] as const)))(
  'knows %s in any case',
  (word, name) => {
    for (const spelled of [word, word.toLowerCase(), word.toUpperCase(), ` ${word} `]) {
      expect(resolvedName({}, spelled)).toMatch(new RegExp(`^spec ${name} `));
    }
  },
);
