import { expect } from 'vitest';
import { type Attack, JSON_TYPE, sign } from './hostile-replays.ts';
import type { Target } from './hostile-service.ts';

// Attacks on who may look, who may deliver, and which secrets a deploy may name: rows of the proof of hostile input.

const CLOSE = 'host: localhost\r\nconnection: close\r\n';

const PROXY_SIGNS = [
  'forwarded: for=203.0.113.9',
  'x-forwarded-for: 203.0.113.9',
  'x-forwarded-proto: https',
  'x-real-ip: 203.0.113.9',
  'via: 1.1 edge',
  'cf-connecting-ip: 203.0.113.9',
  'true-client-ip: 203.0.113.9',
  'x-original-host: hooks.example.com',
];

/** The dashboard has no credentials here: it is for this machine alone, and not for whoever a proxy brings in. */
export const ACCESS: readonly Attack[] = [
  ...PROXY_SIGNS.map((sign) => ({ title: sign, text: `GET /flows/api/runs HTTP/1.1\r\n${CLOSE}${sign}\r\n\r\n` })),
  { title: 'HTTP/1.0', text: 'GET /flows/api/runs HTTP/1.0\r\nhost: localhost\r\n\r\n' },
  { title: 'another host', text: 'GET /flows/api/runs HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n' },
].map(({ title, text }) => ({
  title: `a look at the dashboard with ${title}`,
  async run(target) {
    // That it was refused is kept first.
    expect(await target.wire(text, { waits: true })).toMatch(/^HTTP\/1\.[01] 403 /);
  },
}));

const SENT_ID = '9d3e5c7a-1b2f-4e6d-8a90-5c4b3a2f1e0d';

/** Somebody who may deploy a manifest, and would like to have the secrets of the process. */
async function deploy(target: Target, inputs: Readonly<Record<string, unknown>>, headers = {}): Promise<string> {
  const hook = { type: 'webhook', inputs: { webhookSlug: 'sent', ...inputs } };
  const first = { type: 'HttpRequest', inputs: { url: 'https://example.com/', headers } };
  const manifest = { id: SENT_ID, name: 'sent', version: '1', triggers: { hook }, steps: { first } };
  const url = `${target.service.url}/flows/api/flows/${SENT_ID}?dryRun=true`;
  const response = await fetch(url, { method: 'PUT', headers: JSON_TYPE, body: JSON.stringify(manifest) });
  expect(response.status).toBe(400);
  return await response.text();
}

export const KEYS: readonly Attack[] = [
  {
    title: 'a stranger who hands a key over to a trigger that learns none',
    async run(target) {
      const key = 'b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81';
      const shaken = await target.send({ slug: 'asana', headers: { 'x-hook-secret': key }, body: '' });
      expect(shaken).toMatchObject({ statusCode: 401, reason: 'key_not_configured' });
      const body = '{"events":[]}';
      const headers = { ...JSON_TYPE, 'x-hook-signature': sign('sha256', key, body).digest('hex') };
      expect(await target.send({ slug: 'asana', headers, body })).toMatchObject({ reason: 'key_not_configured' });
    },
  },
  {
    title: 'a manifest over the API that names variables and files of the process',
    async run(target) {
      const signed = (webhookHmacKey: string) => ({ webhookSignatureScheme: 'GitHub', webhookHmacKey });
      const told = (answer: string, reference: string) => answer.replaceAll(reference, '…');
      for (const [there, notThere] of [
        ['env:PATH', 'env:NO_SUCH_NAME'],
        ['file:/etc/hostname', 'file:/etc/no-such-file'],
      ] as const) {
        expect(told(await deploy(target, signed(there)), there)).toBe(
          told(await deploy(target, signed(notThere)), notThere),
        );
        expect(await deploy(target, {}, { authorization: there })).toContain('SLUICE_MANIFEST_SECRETS');
      }
    },
  },
  {
    title: 'a public key that anyone can sign for',
    async run(target) {
      const zeros = { webhookSignatureScheme: 'Discord', webhookHmacKey: '0'.repeat(64) };
      expect(await deploy(target, zeros)).toContain('small order');
    },
  },
];
