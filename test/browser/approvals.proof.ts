import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createWorkspace, eventually, type Service, startService, type Workspace } from '../e2e/service.ts';
import { freePort } from '../free-port.ts';
import type { Browser } from '../oracles/chromium.ts';
import { describeInBrowser, launchBrowser } from './browser.ts';

const FLOW_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
const QUESTION = 'Deploy <script>document.title = "run"</script>?';

describeInBrowser('the page of a link to an answer', () => {
  let workspace: Workspace;
  let service: Service;
  let browser: Browser;
  let mails: Server;
  const links: string[] = [];

  beforeAll(async () => {
    mails = createServer(async (request, response) => {
      links.push(String(await json(request)));
      response.end();
    });
    await once(mails.listen(0, '127.0.0.1'), 'listening');
    const { port } = mails.address() as AddressInfo;
    workspace = await createWorkspace();
    const inputs = { url: `http://127.0.0.1:${port}/`, method: 'POST', body: `\${waits.approval.url}?choice=approve` };
    await workspace.writeManifest('deploy.json', {
      ...{ id: FLOW_ID, name: 'Deploy', version: '1', triggers: { byHand: { type: 'manual' } } },
      steps: {
        mail: { type: 'HttpRequest', inputs },
        approval: {
          type: 'WaitForSignal',
          inputs: { choices: ['approve', 'reject'], question: QUESTION },
          runAfter: { mail: ['Succeeded'] },
        },
      },
    });
    const own = await freePort();
    const env = {
      SLUICE_PORT: String(own),
      SLUICE_PUBLIC_URL: `http://127.0.0.1:${own}`,
      SLUICE_EGRESS_ALLOW: '127.0.0.1',
    };
    [service, browser] = await Promise.all([startService(workspace, env), launchBrowser()]);
  });
  afterAll(async () => {
    await Promise.all([browser.close(), service.stop('SIGTERM')]);
    mails.close();
  });

  it('has its style, runs nothing, and sends what is pressed', async () => {
    const started = await fetch(`${service.url}/flows/api/flows/${FLOW_ID}/trigger`, { method: 'POST' });
    const { runId } = (await started.json()) as { runId: string };
    const [link = ''] = await eventually(
      () => links,
      ({ length }) => length > 0,
    );
    const page = await browser.newPage();
    await page.goto(link);
    await page.getByRole('heading', { name: QUESTION }).waitFor();
    const picked = page.getByRole('button', { name: 'approve' });
    expect(await picked.getAttribute('class')).toBe('picked');
    // The page's style sheet sets a margin; the browser's default is 8 px.
    const box = await page.locator('main').boundingBox();
    expect(box?.x).toBeGreaterThan(50);
    await page.getByRole('button', { name: 'reject' }).click();
    await page.getByRole('heading', { name: 'Your answer was taken: reject' }).waitFor();
    const run = await eventually(
      async () => (await fetch(`${service.url}/flows/api/runs/${runId}/steps`)).text(),
      (steps) => steps.includes('"by":"link"'),
    );
    expect(run).toContain('"choice":"reject"');
    await page.goto(link);
    await page.getByRole('heading', { name: 'This question takes no answer any more' }).waitFor();
  });
});
