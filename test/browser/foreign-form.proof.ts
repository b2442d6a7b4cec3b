import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  createWorkspace,
  FLOW_ID,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from '../e2e/service.ts';
import type { Browser, BrowserContext, Page } from '../oracles/chromium.ts';
import { describeInBrowser, launchBrowser } from './browser.ts';

const TOKEN = 'the-token-of-operators';

/** Reads the API and disables the flow, before its page has loaded. */
const SCRIPT = `fetch('/flows/api/flows').then(async (answer) => { document.title = await answer.text(); });
fetch('/flows/api/flows/${FLOW_ID}/disable', { method: 'POST' });`;
const PAGE = `<html xmlns="http://www.w3.org/1999/xhtml"><script>${SCRIPT}</script></html>`;
const PICTURE = `<svg xmlns="http://www.w3.org/2000/svg"><script>${SCRIPT}</script></svg>`;

/** A flow that answers with its step's output. Here the sender writes that output, as a called host could. */
const echoing = githubManifest({
  inputs: {
    ...{ webhookSignatureScheme: undefined, webhookHmacKey: undefined, webhookNonceHeader: undefined },
    webhookRespond: { step: 'reply', withinSeconds: 25 },
  },
  // biome-ignore lint/suspicious/noTemplateCurlyInString: an expression of a manifest.
  steps: { reply: { type: 'Transform', inputs: { value: '${trigger.body}' } } },
});

const escaped = (text: string) => text.replace(/[&"<]/g, (letter) => `&#${letter.charCodeAt(0)};`);

describeInBrowser('a form of another site that is sent to the receive endpoint', () => {
  let workspace: Workspace;
  let service: Service;
  let browser: Browser;
  let context: BrowserContext;
  let elsewhere: Server;

  beforeAll(async () => {
    workspace = await createWorkspace();
    await workspace.writeManifest('push.json', echoing);
    [service, browser] = await Promise.all([
      startService(workspace, { SLUICE_LOG_LEVEL: 'silent', SLUICE_DASHBOARD_TOKEN: TOKEN }),
      launchBrowser(),
    ]);
    context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${service.url}/flows`);
    await page.getByLabel('Token').fill(TOKEN);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    elsewhere = createServer((request, response) => {
      const answer = new URL(request.url ?? '', 'http://a').searchParams.get('answer') ?? '';
      // A form of the type text/plain sends NAME=VALUE; here that is JSON.
      const name = `${answer.slice(0, -1)},"more":"`;
      response.setHeader('content-type', 'text/html');
      response.end(
        `<form method="post" enctype="text/plain" action="${service.url}/flows/api/webhook/push">` +
          `<input type="hidden" name="${escaped(name)}" value="&quot;}"><button>Win</button></form>`,
      );
    }).listen(0, '127.0.0.1');
    await once(elsewhere, 'listening');
  }, 60_000);
  afterAll(async () => {
    elsewhere?.close();
    await browser?.close();
    await service?.stop('SIGTERM');
  });

  /** Sends the form from the other site; returns the page of the answer, and the paths that it requested. */
  async function lure(answer: object): Promise<{ page: Page; asked: string[] }> {
    const page = await context.newPage();
    const asked: string[] = [];
    // 127.0.0.1 is the service: to a browser, localhost is another site.
    const { port } = elsewhere.address() as AddressInfo;
    await page.goto(`http://localhost:${port}/?answer=${encodeURIComponent(JSON.stringify(answer))}`);
    page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await page.getByRole('button').click();
    await page.waitForURL(`${service.url}/flows/api/webhook/push`);
    return { page, asked };
  }

  it.each([
    ['text/html', PAGE],
    ['text/html; charset=utf-7', PAGE],
    ['application/xhtml+xml', PAGE],
    ['application/xml', PAGE],
    ['text/xml', PAGE],
    ['text/plain', PAGE],
    ['image/svg+xml', PICTURE],
    ['multipart/x-mixed-replace; boundary=x', `--x\r\ncontent-type: text/html\r\n\r\n${PAGE}\r\n--x--`],
  ])('runs no script that a step gives as %s', async (type, body) => {
    const { page, asked } = await lure({ headers: { 'content-type': type }, body });
    expect(asked).toEqual(['/flows/api/webhook/push']);
    expect(await page.title()).toBe('');
    const flow = await fetch(`${service.url}/flows/api/flows/${FLOW_ID}`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    expect(await flow.json()).toMatchObject({ name: 'push', isEnabled: true });
    await page.close();
  });

  it('comes to a page that could not read the API if it ran a script', async () => {
    const read = "fetch('/flows/api/flows').then(({ status }) => status, () => 'refused')";
    const { page } = await lure({ body: 'hello' });
    expect(await page.evaluate(read)).toBe('refused');
    expect(await page.evaluate('self.origin')).toBe('null');
    await page.goto(`${service.url}/flows`);
    expect(await page.evaluate(read)).toBe(200);
    await page.close();
  });
});
