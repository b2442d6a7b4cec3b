import { execFile } from 'node:child_process';
import { createHash, createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import { knownPublishers } from '../../src/features/new/publishers.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { gradeOf } from '../../src/webhooks/schemes/layout.ts';
import { BUILT_IN_SCHEMES } from '../../src/webhooks/schemes/publishers/index.ts';
import { createSchemeRegistry, resolveScheme } from '../../src/webhooks/schemes/resolve.ts';
import { signDelivery } from '../../src/webhooks/schemes/sign.ts';
import { CAPTURED, jsonSample, type SignatureSpec } from '../../src/webhooks/schemes/spec.ts';
import { buildApp } from '../database.ts';
import { eventually, getJson } from '../e2e/service.ts';
import { temporaryFolder } from '../temporary.ts';
import { keyOf as fixtureKey } from '../webhooks/schemes/fixtures.ts';

const FOLDER = resolve(import.meta.dirname, '../../docs/publishers');
const index = readFileSync(join(FOLDER, 'README.md'), 'utf8');

interface Page {
  readonly file: string;
  readonly text: string;
  readonly manifest: {
    readonly $schema: string;
    readonly id: string;
    readonly triggers: Record<string, { readonly inputs: Record<string, string | number | boolean | undefined> }>;
  };
  /** Inputs of its only trigger. */
  readonly inputs: Record<string, string | number | boolean | undefined>;
}

const pages = readdirSync(FOLDER)
  .filter((file) => file !== 'README.md' && file !== 'not-added.md')
  .map((file): Page => {
    const text = readFileSync(join(FOLDER, file), 'utf8');
    const manifest: Page['manifest'] = JSON.parse(/```json\n([\s\S]*?)```/.exec(text)?.[1] ?? '{}');
    const [trigger] = Object.values(manifest.triggers);
    return { file, text, manifest, inputs: trigger?.inputs ?? {} };
  });

/** A key that strict manifests accept; `is` says which half of a pair. */
function keyOf(spec: SignatureSpec, is: 'publicKey' | 'privateKey'): string {
  const { name, algorithm, keyEncoding, certificate } = spec;
  if (algorithm === 'ed25519' || algorithm === 'ecdsaP256' || algorithm === 'rsaSha256' || certificate !== undefined)
    return fixtureKey(spec, 7, is);
  if (spec.isUserAndPassword === true) return `hooks:the-strong-key-of-${name}`;
  const bytes = Buffer.from('a key of thirty-two bytes in all');
  if (keyEncoding === 'hex') return bytes.toString('hex');
  if (keyEncoding === 'base64') return bytes.toString('base64');
  return keyEncoding === 'whsec' ? `whsec_${bytes.toString('base64')}` : `the-strong-key-of-${name}`;
}

const pageOf = ({ name }: SignatureSpec): Page => {
  const [page, ...others] = pages.filter(({ inputs }) => inputs.webhookSignatureScheme === name);
  if (page === undefined || others.length > 0) throw new Error(`${name} needs one page, not ${others.length + 1}`);
  return page;
};

const schemes = BUILT_IN_SCHEMES.map((spec) => ({ name: spec.name, spec, page: pageOf(spec) }));

describe.each(schemes)('the page of $name', ({ spec, page: { file, text, manifest, inputs } }) => {
  const grade = gradeOf(spec) ?? 'F';

  it('says what the signature covers, as the scheme does', () => {
    expect(text.replace(/\s+/g, ' ')).toContain(`**Grade ${grade}.** ${CAPTURED[grade]}`);
    expect(index).toMatch(
      new RegExp(`^\\| \\[.+\\]\\(${file.replace('.', '\\.')}\\) \\| \`${spec.name}\` \\| ${grade} \\|`, 'm'),
    );
  });

  it('names the handshakes and the URL to enter', () => {
    expect(
      spec.handshakes?.map(({ name }) => name.split(' ')[0] ?? '').filter((name) => !text.includes(name)) ?? [],
    ).toEqual([]);
    expect(text).toContain(`https://hooks.example.com/flows/api/webhook/${inputs.webhookSlug}`);
  });

  it('says where or when its retries were read', () => {
    const [, section = ''] = /^## Retries and duplicates\n([\s\S]*?)^## /m.exec(text) ?? [];
    expect(section.replace(/\s+/g, ' ')).toMatch(/as of November 2026|read on 2026-11-\d\d/);
  });

  it('enforces, and names as nonce header only the one that the scheme has', () => {
    expect(inputs.webhookEnforcementMode).toBe('Enforce');
    expect([spec.headers[0]?.deliveryId, undefined]).toContain(inputs.webhookNonceHeader);
    expect(pages.filter((page) => page.manifest.id === manifest.id)).toHaveLength(1);
  });

  it('sends to the trigger that it shows', () => {
    const slugs = [...text.matchAll(/npx sluice send (\S+)/g)].map(([, slug]) => slug);
    for (const slug of slugs) expect(slug).toBe(inputs.webhookSlug);
  });
});

const plaidKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const PLAID_KEYS = {
  ...plaidKeys,
  publicKey: JSON.stringify({ ...plaidKeys.publicKey.export({ format: 'jwk' }), kid: 'k1', alg: 'ES256', use: 'sig' }),
};
const SHARED = pages.filter(({ inputs: { webhookSignatureScheme: name = 'Custom' } }) =>
  ['Token', 'Basic', 'Jwt', 'HttpMessageSignatures'].includes(String(name)),
);

describe.each(SHARED)('the page $file of a scheme that is none of its own', ({ file, text, manifest, inputs }) => {
  it('says what the signature covers, and where to enter the URL', () => {
    const scheme = resolveScheme(createSchemeRegistry(), inputs as WebhookInputs);
    const grade =
      (scheme?.kind === 'standard' ? scheme.standard.grade : scheme?.kind === 'spec' && gradeOf(scheme.spec)) || 'F';
    expect(text.replace(/\s+/g, ' ')).toContain(`**Grade ${grade}.** ${CAPTURED[grade]}`);
    const row = new RegExp(`^\\| \\[.+\\]\\(${file}\\) \\| \`${inputs.webhookSignatureScheme}\` \\| ${grade} \\|`, 'm');
    expect(index).toMatch(row);
    expect(text).toContain(`https://hooks.example.com/flows/api/webhook/${inputs.webhookSlug}`);
    expect(pages.filter((page) => page.manifest.id === manifest.id)).toHaveLength(1);
  });
});

const byName = <Row extends { readonly scheme: string | undefined }>(rows: readonly Row[]) =>
  rows.toSorted((one, other) => String(one.scheme).localeCompare(String(other.scheme), 'en'));

describe('the manifests of the pages', () => {
  it('are what `sluice new` writes, and the steps above them what it says', () => {
    const flat = (text: string) => text.replace(/\s+/g, ' ').trim();
    const shown = pages.flatMap(({ text, manifest: { $schema: _, id: __, ...flow } }) => {
      const [, scheme] = /^Scheme `(\w+)`/m.exec(text) ?? [];
      const [, steps = ''] = /^## At the publisher\n+([\s\S]*?)\n+## /m.exec(text) ?? [];
      return scheme === undefined ? [] : [{ scheme, steps: flat(steps), flow }];
    });
    const written = knownPublishers().map((publisher) => {
      const url = `https://hooks.example.com/flows/api/webhook/${publisher.inputs.webhookSlug}`;
      const steps = publisher.clickPath.map((step, at) => `${at + 1}. ${step.replaceAll('{URL}', url)}`).join(' ');
      return { scheme: publisher.inputs.webhookSignatureScheme, steps: flat(steps), flow: publisher.flow(url) };
    });
    expect(shown.length).toBeGreaterThan(100);
    expect(byName(written)).toEqual(byName(shown));
  });

  let folder: string;
  let app: SluiceApp;
  let url: string;
  const KEY = 'a key that is long enough';
  const OTHER_SECRETS = {
    META_VERIFY_TOKEN: 'a token that Meta repeats',
    TIMESTAMPED_SECRET: KEY,
    BASE64_SECRET: KEY,
    ROTATING_SECRET: KEY,
    PLAID_KEY: PLAID_KEYS.publicKey,
    VONAGE_SIGNATURE_SECRET: KEY,
    NETLIFY_SECRET: KEY,
    SIGNED_KEY: KEY,
  };
  const environment = Object.fromEntries(
    schemes.flatMap(({ spec, page: { inputs } }) => {
      const [, variable] = /^env:(\w+)$/.exec(String(inputs.webhookHmacKey)) ?? [];
      return variable === undefined ? [] : [[variable, keyOf(spec, 'publicKey')]];
    }),
  );

  beforeAll(async () => {
    folder = temporaryFolder('test');
    for (const { file, manifest } of pages) {
      await writeFile(join(folder, file.replace('.md', '.json')), JSON.stringify(manifest));
    }
    app = await buildApp({
      folder,
      environment: { ...environment, ...OTHER_SECRETS },
      settings: { port: 0, databaseUrl: 'sqlite::memory:', manifests: '.', strictManifests: true, logLevel: 'silent' },
    });
    url = await app.listen();
  });
  const deliver = (spec: SignatureSpec, inputs: Page['inputs']) => {
    const sample = spec.sample ?? jsonSample({ message: 'hello' });
    const target = `${url}/flows/api/webhook/${inputs.webhookSlug}`;
    const signed = signDelivery({
      spec,
      key: keyOf(spec, 'privateKey'),
      body: Buffer.from(sample.body),
      url: String(inputs.webhookPublicUrl ?? target),
      timestampMs: Date.now(),
      deliveryId: 'id-of-the-delivery',
      contentType: sample.contentType,
    });
    const headers = { ...sample.headers, ...signed.headers };
    return fetch(`${target}${new URL(signed.url).search}`, { method: 'POST', headers, body: signed.body });
  };

  it('load under strict manifests, and warn only of what the index explains', () => {
    const [, rows = ''] = /\| the warning contains \|.*\n.*\n((?:\|.*\n)+)/.exec(index) ?? [];
    const explained = [...rows.matchAll(/^\| `([^`]+)` \|/gm)].map(([, phrase = '']) => phrase);
    const warnings = app.warnings.filter((line) => line.startsWith('warning '));
    expect(warnings.filter((line) => !explained.some((phrase) => line.includes(phrase)))).toEqual([]);
    expect(explained.filter((phrase) => !warnings.some((line) => line.includes(phrase)))).toEqual([]);
  });

  it.each(schemes.filter(({ spec }) => spec.certificate === undefined))(
    'accept what $name signs, and run',
    async ({ spec, page: { manifest, inputs } }) => {
      if (inputs.webhookLearnKey === true) {
        const headers = { 'x-hook-secret': keyOf(spec, 'privateKey') };
        await fetch(`${url}/flows/api/webhook/${inputs.webhookSlug}`, { method: 'POST', headers });
      }
      const response = await deliver(spec, inputs);
      expect(response.status, await response.text()).toBe(200);
      const runs = `${url}/flows/api/runs?flowId=${manifest.id}`;
      const [run] = await eventually(
        () => getJson<{ status: string }[]>(runs),
        ([one]) => one?.status !== 'Running',
      );
      expect(run).toMatchObject({ status: 'Succeeded' });
    },
  );

  const BODY = '{"event":"tested"}';
  const hmac = (text: string) => createHmac('sha256', KEY).update(text);
  const seconds = Math.floor(Date.now() / 1000);

  it.each([
    ['timestamped', 'x-billing-signature', `ts=${seconds};h1=${hmac(`${seconds}:${BODY}`).digest('hex')}`],
    ['base64', 'x-chat-signature', hmac(BODY).digest('base64')],
    ['rotating', 'x-alert-signature', `v1=${'0'.repeat(64)},v1=${hmac(BODY).digest('hex')}`],
  ])('of the page of Custom take what its sender %s signs, and nothing else', async (slug, header, signature) => {
    const send = (body: string) =>
      fetch(`${url}/flows/api/webhook/${slug}`, { method: 'POST', headers: { [header]: signature }, body });
    expect((await send(`${BODY} `)).status).toBe(401);
    expect((await send(BODY)).status).toBe(200);
  });

  const sha256 = createHash('sha256').update(BODY).digest('hex');
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = (alg: string, claims: object) => {
    const input = `${encoded({ alg, kid: 'k1' })}.${encoded(claims)}`;
    const signed =
      alg === 'ES256'
        ? sign('sha256', Buffer.from(input), { key: PLAID_KEYS.privateKey, dsaEncoding: 'ieee-p1363' })
        : hmac(input).digest();
    return `${input}.${signed.toString('base64url')}`;
  };
  it.each<[string, string, string]>([
    ['plaid', 'plaid-verification', token('ES256', { iat: seconds, request_body_sha256: sha256 })],
    ['vonage', 'authorization', `Bearer ${token('HS256', { iat: seconds, payload_hash: sha256, jti: '1' })}`],
    ['netlify', 'x-webhook-signature', token('HS256', { iss: 'netlify', sha256 })],
  ])('take what %s sends, once, and no other body with it', async (slug, header, value) => {
    const send = (body: string, given = value) =>
      fetch(`${url}/flows/api/webhook/${slug}`, { method: 'POST', headers: { [header]: given }, body });
    expect((await send(BODY, `${value.slice(0, -4)}AAAA`)).status).toBe(401);
    expect((await send(`${BODY} `)).status).toBe(401);
    const first = await send(BODY);
    expect(first.status, await first.clone().text()).toBe(200);
    const { runId } = (await first.json()) as { runId: string };
    expect(await (await send(BODY)).json()).toMatchObject({ runId });
  });

  it('take a delivery that is signed by hand as the page of Generic shows', async () => {
    const text = pages.find(({ file }) => file === 'generic.md')?.text ?? '';
    const [, script = ''] = /```sh\n(BODY=[\s\S]*?)```/.exec(text) ?? [];
    const env = { PATH: process.env.PATH ?? '', PARTNER_KEY: environment.PARTNER_KEY ?? '' };
    const here = script.replace('http://127.0.0.1:3000', url);
    const { stdout } = await promisify(execFile)('sh', ['-c', here], { env });
    expect(JSON.parse(stdout)).toHaveProperty('runId');
  });
});
