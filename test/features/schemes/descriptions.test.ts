import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';
import { describeSchemes } from '../../../src/features/schemes/descriptions.ts';
import { gradeOf } from '../../../src/webhooks/schemes/layout.ts';
import { BUILT_IN_SCHEMES, STANDARD_PUBLISHERS } from '../../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry } from '../../../src/webhooks/schemes/resolve.ts';
import { CAPTURED, GRADES, type Grade, part, type SignatureSpec } from '../../../src/webhooks/schemes/spec.ts';

const find = (name: string) => describeSchemes(createSchemeRegistry()).find((scheme) => scheme.name === name);

it('lists every scheme that comes with the service, each with its source', () => {
  const schemes = describeSchemes(createSchemeRegistry());
  expect(schemes.map(({ name }) => name)).toEqual([
    ...[...BUILT_IN_SCHEMES, ...STANDARD_PUBLISHERS]
      .map(({ name }) => name)
      .sort((one, other) => one.localeCompare(other, 'en')),
    ...['Token', 'Basic', 'Jwt', 'HttpMessageSignatures', 'Custom'],
  ]);
  for (const { name, source } of schemes) expect(source, name).not.toBe('');
  for (const { name, source } of [...BUILT_IN_SCHEMES, ...STANDARD_PUBLISHERS])
    expect(source, name).toMatch(/20\d\d-\d\d$/);
});

it.each([
  ['GitHub', { body: true, timestamp: false, id: false, url: false }],
  ['Stripe', { body: true, timestamp: true, id: false, url: false }],
  ['Linear', { body: true, timestamp: true, id: false, url: false }],
  ['Twilio', { body: true, timestamp: false, id: false, url: true }],
  ['Mailgun', { body: false, timestamp: true, id: true, url: false }],
  ['StandardWebhooks', { body: true, timestamp: true, id: true, url: false }],
  ['Discord', { body: true, timestamp: true, id: false, url: false }],
  ['Twitch', { body: true, timestamp: true, id: true, url: false }],
  ['Square', { body: true, timestamp: false, id: false, url: true }],
  ['Trello', { body: true, timestamp: false, id: false, url: true }],
  ['Monday', { body: false, timestamp: false, id: false, url: false }],
  ['MessageBird', { body: true, timestamp: true, id: false, url: true }],
])('says what the signature of %s covers', (name, coverage) => {
  expect(find(name)?.coverage).toEqual(coverage);
});

it.each([
  ['StandardWebhooks', 'A'],
  ['Twitch', 'A'],
  ['Stripe', 'B'],
  ['Slack', 'B'],
  ['Linear', 'B'],
  ['GitHub', 'D'],
  ['Twilio', 'D'],
  ['Square', 'D'],
  ['Dropbox', 'D'],
  ['Mailgun', 'E'],
  ['Custom', null],
])('grades %s: %s', (name, grade) => {
  expect(find(name)).toMatchObject({ grade, captured: grade === null ? null : CAPTURED[grade as Grade] });
});

it.each([
  ['C', { signs: [part.deliveryId, '.', part.body] }],
  ['D', { signs: [part.deliveryId, part.body] }],
  ['D', { signs: [part.body, part.timestamp], timestamp: { in: 'header', unit: 'seconds' } }],
  ['B', { signs: [part.body, part.timestamp], timestamp: { in: 'header', unit: 'seconds', length: 10 } }],
  ['E', { signs: [part.timestamp, '.'], timestamp: { in: 'header', unit: 'seconds', length: 10 } }],
  ['F', { signs: [part.method] }],
  [null, { signs: [{ part: 'built', name: 'own' }] }],
] as [Grade | null, Partial<SignatureSpec>][])(
  'gives the grade %s to a layout that signs so much: %o',
  (grade, given) => {
    const { timestamp: _, ...spec } = { ...BUILT_IN_SCHEMES[0], ...given } as SignatureSpec;
    expect(gradeOf({ ...spec, timestamp: given.timestamp })).toBe(grade);
  },
);

it('defines every grade in the documentation', () => {
  const page = readFileSync(resolve(import.meta.dirname, '../../../docs/secure.md'), 'utf8');
  for (const grade of GRADES) expect(page).toContain(`| ${grade} | ${CAPTURED[grade]} |`);
});

it.each([
  ['Stripe', { in: 'signature', name: 't', unit: 'seconds' }],
  ['Slack', { in: 'header', name: 'X-Slack-Request-Timestamp', unit: 'seconds' }],
  ['Linear', { in: 'body', name: 'webhookTimestamp', unit: 'milliseconds' }],
  ['Mailgun', { in: 'body', name: 'signature.timestamp', unit: 'seconds' }],
  ['GitHub', null],
])('says where the timestamp of %s is', (name, timestamp) => {
  expect(find(name)?.timestamp).toEqual(timestamp);
});

it('tells names, keys, handshakes and ids', () => {
  expect(find('StandardWebhooks')).toMatchObject({
    aliases: expect.arrayContaining(['Svix', 'Clerk']),
    kind: 'builtIn',
    headers: ['webhook-signature', 'svix-signature'],
    keyEncoding: 'whsec',
    deliveryIdHeader: 'webhook-id',
  });
  expect(find('Atlassian')?.algorithm).toBe('sha256 or sha384 or sha512');
  expect(find('Asana')?.handshakes).toMatchObject([{ name: 'X-Hook-Secret', bringsKey: true }]);
  expect(find('Discord')).toMatchObject({ algorithm: 'ed25519', keyEncoding: 'hex' });
  expect(find('Slack')?.handshakes).toEqual([
    { name: 'url_verification', method: 'POST', needsVerification: true, bringsKey: false },
    { name: 'ssl_check', method: 'POST', needsVerification: false, bringsKey: false },
  ]);
  expect(find('Mailgun')).toMatchObject({ headers: [], deliveryIdHeader: null });
});

it('lists what the operator registered, in place of the built-in that it shadows', () => {
  const schemes = describeSchemes(
    createSchemeRegistry({
      verifiers: [{ name: 'Remote', verify: () => ({ outcome: 'refused', reason: '' }) }],
      specs: [
        {
          name: 'github',
          headerName: 'X-Mine',
          algorithm: 'Sha384',
          encoding: 'Base64',
          signedPayloadStrategy: 'RawBody',
        },
      ],
    }),
  );
  expect(schemes.filter(({ name }) => name.toLowerCase() === 'github')).toEqual([
    expect.objectContaining({ kind: 'spec', headers: ['X-Mine'], algorithm: 'sha384', encoding: 'base64' }),
  ]);
  expect(schemes.find(({ name }) => name === 'Remote')).toMatchObject({
    kind: 'verifier',
    coverage: null,
    grade: null,
  });
});

it('survives a round trip through JSON', () => {
  const schemes = describeSchemes(createSchemeRegistry());
  expect(JSON.parse(JSON.stringify(schemes))).toEqual(schemes);
});

it('lists an alias with the scheme that it leads to', () => {
  const spec = { name: 'svix', headerName: 'X-Svix', algorithm: 'sha256', encoding: 'base64' } as const;
  const registry = createSchemeRegistry({ specs: [{ ...spec, signedPayloadStrategy: 'RawBody' }] });
  const names = describeSchemes(registry).flatMap(({ name, aliases }) => [name, ...aliases]);
  expect(names.filter((name) => name.toLowerCase() === 'svix')).toEqual(['svix']);
  expect(names).toContain('StandardWebhooks');
});
