import { createHmac } from 'node:crypto';
import { beforeAll, expect, it } from 'vitest';
import type { EnforcementMode } from '../../src/model/manifest.ts';
import { type SignedDelivery, signDelivery } from '../../src/webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../../src/webhooks/schemes/spec.ts';
import { encodeDigest, NODE_ENCODINGS } from '../../src/webhooks/schemes/values.ts';
import { storedText } from '../database.ts';
import { keepSpans } from '../spans.ts';
import {
  bodyFor,
  contentTypeFor,
  KEYS,
  keyOf,
  OTHER_SIGNING_KEYS,
  SIGNABLE_SCHEMES,
  SIGNING_KEYS,
} from '../webhooks/schemes/fixtures.ts';
import { type Gateway, NOW, type Sent, startGateway } from './gateway.ts';

const MODES = ['Off', 'Audit', 'Enforce'] as const;
const PUBLIC_URL = 'https://hooks.example.com/in';
const slugOf = ({ name }: SignatureSpec, mode: EnforcementMode) => `${name}-${mode}`.toLowerCase();

/** `is`: the key of the trigger, or the key that signs. */
const previousKeyOf = (spec: SignatureSpec, is: 'publicKey' | 'privateKey') => keyOf(spec, 9, is);

const spans = keepSpans();

let gateway: Gateway;
beforeAll(async () => {
  const triggers = SIGNABLE_SCHEMES.flatMap((spec) =>
    MODES.map((mode) => [
      slugOf(spec, mode),
      {
        webhookSignatureScheme: spec.name,
        webhookHmacKey: KEYS[spec.name],
        webhookHmacKeyPrevious: previousKeyOf(spec, 'publicKey'),
        webhookPublicUrl: PUBLIC_URL,
        webhookEnforcementMode: mode,
        webhookReplayToleranceSeconds: 300,
      },
    ]),
  );
  gateway = await startGateway({
    triggers: Object.fromEntries(triggers),
    settings: { databaseUrl: 'sqlite:sluice.db' },
  });
});

function sign(spec: SignatureSpec, key: string): SignedDelivery {
  return signDelivery({
    spec,
    key,
    url: PUBLIC_URL,
    timestampMs: NOW,
    deliveryId: 'msg_1',
    contentType: contentTypeFor(spec),
    body: bodyFor(spec, '{"a":1}'),
  });
}

/** The digest in every spelling that could leak. */
function spellings(digest: Buffer): string[] {
  const hex = digest.toString('hex');
  const base64 = digest.toString('base64').replace(/=+$/, '');
  return [hex, hex.toUpperCase(), base64, digest.toString('base64url'), digest.toString('latin1')];
}

function digestOf(spec: SignatureSpec, { headers, body }: SignedDelivery): Buffer {
  const name = spec.headers[0]?.signature;
  const inBody = decodeURIComponent(/(?:[sS]ignature|clientState)(?:":"|=)([^"&]+)/.exec(body.toString())?.[1] ?? '');
  const text = name === undefined ? inBody : (headers[name] ?? '').replace(/"$/, '');
  // For a token scheme, the secret is the token itself.
  if (spec.algorithm === 'token') return Buffer.from(text);
  const digits = /[0-9a-f]{40,}$|[A-Za-z0-9+/_-]{27,}={0,2}$/.exec(text)?.[0] ?? '';
  const digest = Buffer.from(digits, NODE_ENCODINGS[spec.encoding]);
  // Every text contains an empty one.
  if (digest.length < 20) throw new Error(`no digest of ${spec.name} in ${text}`);
  return digest;
}

/** As it is sent, without padding. */
function sentSpelling(spec: SignatureSpec, digest: Buffer): string {
  return encodeDigest(digest, spec.encoding).replace(/=+$/, '');
}

/** A different signature of the same length, none, and an invalid one, all over the same bytes. */
function forgeries(spec: SignatureSpec): Sent[] {
  const { headers, body, url } = sign(spec, OTHER_SIGNING_KEYS[spec.name] ?? '');
  const query = url.slice(PUBLIC_URL.length);
  const name = spec.headers[0]?.signature;
  const sent = { headers, body, query };
  if (name === undefined) return [sent];
  const { [name]: signature = '', ...unsigned } = headers;
  return [
    sent,
    { ...sent, headers: unsigned },
    { ...sent, headers: { ...unsigned, [name]: signature.slice(0, -3) } },
    // Nonce and age are checked even if the signature is wrong.
    { ...sent, headers: { ...headers, 'x-webhook-timestamp': '1' } },
  ];
}

const DELIVERIES = '/flows/api/webhooks/recent';
const PLAIN_TOKEN = `v0:${NOW / 1000}:{"event":"meeting.ended"}`;
const zoomAttack: Sent = {
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ event: 'endpoint.url_validation', payload: { plainToken: PLAIN_TOKEN } }),
};

async function everythingSaid(): Promise<Record<string, string>> {
  const seen: Record<string, string> = {};
  const read = async (path: string) => {
    seen[path] = await gateway.get(path);
    return seen[path];
  };
  const readAll = async <Item>(path: string) => {
    const items: Item[] = [];
    for (let page: Item[]; items.length % 500 === 0; items.push(...page)) {
      page = JSON.parse(await read(`${path}?take=500&skip=${items.length}`));
      if (page.length === 0) break;
    }
    return items;
  };
  const recent = await readAll<{ id: string; mode: string }>(DELIVERIES);
  const runs = await readAll<{ id: string; flowId: string }>('/flows/api/runs');
  const paths = [
    ...['flows', 'schemes', 'handlers', 'openapi.json', 'webhooks/stats?hours=1', 'webhooks/readiness'],
    ...['', '/revisions', '/revisions/1', '/mermaid'].map((part) => `flows/${runs[0]?.flowId}${part}`),
    // The code for hints is the same in every mode.
    ...recent.filter(({ mode }) => mode === 'Audit').map(({ id }) => `webhooks/${id}`),
    ...runs.flatMap(({ id }) => [`runs/${id}`, `runs/${id}/steps`]),
  ];
  for (const path of paths) await read(`/flows/api/${path}`);
  await read('/metrics');
  await gateway.close();
  seen.log = gateway.logged.join('');
  seen.spans = JSON.stringify(
    spans().map(({ name, attributes, events, status }) => ({ name, attributes, events, status })),
  );
  seen.database = await storedText(gateway.folder, 'sqlite:sluice.db');
  return seen;
}

it('never tells the signature that would have been right: in no answer, log line, span, metric or row', async () => {
  const expected: Record<string, string[]> = {};
  const forged: string[] = [];
  const answers: string[] = [];
  for (const spec of SIGNABLE_SCHEMES) {
    expected[spec.name] = spellings(digestOf(spec, sign(spec, SIGNING_KEYS[spec.name] ?? '')));
    expected[`${spec.name}, previous key`] = spellings(digestOf(spec, sign(spec, previousKeyOf(spec, 'privateKey'))));
    forged.push(sentSpelling(spec, digestOf(spec, sign(spec, OTHER_SIGNING_KEYS[spec.name] ?? ''))));
    for (const mode of MODES) {
      // Audit judges like Enforce and lets pass like Off: it gets all forgeries, others the most delivery-like one.
      for (const forgery of mode === 'Audit' ? forgeries(spec) : forgeries(spec).slice(0, 1)) {
        const { status, text, headers } = await gateway.deliver(slugOf(spec, mode), forgery);
        expect(status, `${slugOf(spec, mode)} ${text}`).toBe(mode === 'Enforce' ? 401 : 200);
        answers.push(`${text} ${JSON.stringify(headers)}`);
      }
    }
  }
  for (const mode of MODES) {
    const { status, text } = await gateway.deliver(`zoom-${mode.toLowerCase()}`, zoomAttack);
    expect(status).toBe(401);
    answers.push(text);
  }
  expected['Zoom as a signing oracle'] = spellings(
    createHmac('sha256', KEYS.Zoom ?? '')
      .update(PLAIN_TOKEN)
      .digest(),
  );

  const seen: Record<string, string> = { ...(await everythingSaid()), answers: answers.join('\n') };
  const leaks = Object.entries(seen).flatMap(([place, text]) =>
    Object.entries(expected).flatMap(([name, all]) =>
      all.filter((spelling) => text.includes(spelling)).map((spelling) => `${name} in ${place}: ${spelling}`),
    ),
  );
  expect(leaks).toEqual([]);
  expect(Object.keys(seen)).toEqual(expect.arrayContaining(['database', 'log', 'spans', '/metrics']));
  expect(seen.spans).toContain('flow.webhook.receive');
  // The search can find leaks: it finds the forged signatures, which are stored, except tokens, the one sent as
  // Authorization, and those that differ with each signing.
  const rows = Object.keys(seen)
    .flatMap((path) => (path.startsWith(DELIVERIES) ? (seen[path] ?? '') : []))
    .join('');
  const kept = SIGNABLE_SCHEMES.filter((_, at) => rows.includes(JSON.stringify(forged[at]).slice(1, -1)));
  const others = SIGNABLE_SCHEMES.filter(
    ({ algorithm, name }) => algorithm === 'token' || algorithm === 'ecdsaP256' || name === 'MicrosoftTeams',
  );
  expect(kept).toHaveLength(SIGNABLE_SCHEMES.length - others.length);
  expect(seen.database).toContain(forged[0]);
}, 120_000);
