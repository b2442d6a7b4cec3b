import { expect } from 'vitest';
import type { Attack } from './attack.ts';
import { github, type Target, TOKENS } from './target.ts';

const PAGE = '<script xmlns="http://www.w3.org/1999/xhtml">fetch("/flows/api/flows")</script>';
const POLICY = "default-src 'none'; sandbox";
const JSON_TYPE = 'application/json; charset=utf-8';
const PLAIN_TEXT = 'text/plain; charset=utf-8';

/** Delivers a body that becomes the step's output; returns the answer. */
async function echoed({ service }: Target, output: object): Promise<{ headers: Headers; text: string }> {
  const response = await fetch(`${service().url}/flows/api/webhook/echoing`, {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: JSON.stringify(output),
    redirect: 'manual',
  });
  expect(response.status).toBe(200);
  expectInert(response.headers);
  return { headers: response.headers, text: await response.text() };
}

function expectInert(headers: Headers): void {
  expect(headers.get('content-security-policy')).toBe(POLICY);
  expect(headers.get('x-content-type-options')).toBe('nosniff');
}

/** Content types of pages in various spellings, with the answer's type. The fixed answer is JSON without them. */
const TYPES: Readonly<Record<string, string>> = {
  'text/html': JSON_TYPE,
  'TEXT/HTML; charset=utf-7': JSON_TYPE,
  '\ttext/html ;': JSON_TYPE,
  'text/plain, text/html': JSON_TYPE,
  'text/plain text/html': JSON_TYPE,
  'application/xhtml+xml': JSON_TYPE,
  'image/svg+xml': JSON_TYPE,
  'text/xsl': JSON_TYPE,
  'text/javascript': JSON_TYPE,
  'text/css': JSON_TYPE,
  'application/pdf': JSON_TYPE,
  'multipart/x-mixed-replace; boundary=x': JSON_TYPE,
  'message/rfc822': JSON_TYPE,
  'application/x-unknown': JSON_TYPE,
  '': JSON_TYPE,
  'text/xml': PLAIN_TEXT,
  'application/rss+xml; charset=utf-7': PLAIN_TEXT,
  'text/plain; charset=iso-2022-jp': PLAIN_TEXT,
  'text/plain; x=y, text/html': PLAIN_TEXT,
};

const pageAs = ([type, sent]: [string, string]): Attack => ({
  rule: 'an answer of a flow is no page',
  attack: `has a step give a script as ${JSON.stringify(type)}`,
  async run(target) {
    const { headers, text } = await echoed(target, { headers: { 'content-type': type }, body: PAGE });
    expect([headers.get('content-type'), text.includes('<script')]).toEqual([sent, sent === PLAIN_TEXT]);
  },
});

/** Headers that make browsers do something besides showing the answer. */
const HEADERS: Readonly<Record<string, string>> = {
  'access-control-allow-credentials': 'true',
  'access-control-allow-origin': 'https://evil.example',
  'clear-site-data': '"*"',
  'content-disposition': 'attachment; filename="setup.exe"',
  'content-security-policy': 'script-src *',
  link: '</flows/api/flows>; rel=preload',
  location: 'https://evil.example',
  refresh: '0; url=https://evil.example',
  'service-worker-allowed': '/',
  'set-cookie': '__Host-sluice-session=forged; Path=/; Secure',
  'x-content-type-options': 'sniff',
};

export const ACTIVE_CONTENT: readonly Attack[] = [
  ...Object.entries(TYPES).map(pageAs),
  {
    rule: 'an answer of a flow sets no header that acts in a browser',
    attack: 'has a step give cookies, a policy, a refresh and the like',
    async run(target) {
      const { headers, text } = await echoed(target, { headers: HEADERS, body: 'hello' });
      expect(text).toBe('hello');
      for (const [name, value] of Object.entries(HEADERS)) expect([name, headers.get(name)]).not.toEqual([name, value]);
    },
  },
  {
    rule: 'an answer of a flow leads nowhere',
    attack: 'has a step give a redirect',
    async run(target) {
      const { text } = await echoed(target, { status: 302, headers: { location: 'https://evil.example' } });
      expect(JSON.parse(text)).toHaveProperty('runId');
    },
  },
  {
    rule: 'the fixed answer of a manifest is no page',
    attack: 'deploys a webhookResponse of a type that browsers run',
    async run(target) {
      for (const contentType of ['text/html', 'image/svg+xml', 'Application/XHTML+xml; charset=utf-7']) {
        const { status, body } = await target.deploy('echoing', { webhookResponse: { contentType, body: PAGE } });
        expect([status, JSON.stringify(body)]).toEqual([
          400,
          expect.stringContaining('webhookResponse.contentType: is a type that browsers may run'),
        ]);
      }
    },
  },
  {
    rule: 'no answer below the receive endpoint is active content',
    attack: 'asks for every path and by every method',
    async run({ service }) {
      const sent = github('<script>', { 'content-type': 'text/html' });
      for (const path of ['', '/', '/push', '/nobody', '/push/more', '/%zz', `/${'x'.repeat(300)}`]) {
        for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'DELETE', 'PATCH']) {
          const body = method === 'GET' || method === 'HEAD' ? {} : { body: sent.body };
          const headers = { ...sent.headers, 'sec-fetch-mode': 'navigate' };
          const asked = { method, headers, redirect: 'manual' as const, ...body };
          expectInert((await fetch(`${service().url}/flows/api/webhook${path}`, asked)).headers);
        }
      }
    },
  },
  {
    rule: 'what is stored of others is shown as data',
    attack: 'sends a page, and an operator opens the body and the output of the step',
    async run(target) {
      const { headers } = await echoed(target, { headers: { 'content-type': 'text/html' }, body: PAGE });
      const delivery = `webhooks/${headers.get('sluice-delivery')}`;
      const { runId } = (await target.ask(delivery, { by: 'reader' })).body;
      for (const path of [`${delivery}/body`, `runs/${runId}/steps/only/output`]) {
        const authorization = `Bearer ${TOKENS.reader}`;
        const answer = await fetch(`${target.service().url}/flows/api/${path}`, { headers: { authorization } });
        expect([path, answer.status, await answer.text()]).toEqual([path, 200, expect.stringContaining('script')]);
        expect(answer.headers.get('content-type')).toMatch(/^application\/(octet-stream|json; charset=utf-8)$/);
        expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
        expect(answer.headers.get('content-security-policy')).toMatch(/^default-src 'none'/);
      }
    },
  },
];
