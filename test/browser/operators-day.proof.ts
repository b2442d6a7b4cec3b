import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, it } from 'vitest';
import { FLOW_ID, GITHUB_SECRET, getJson, githubManifest } from '../e2e/service.ts';
import { describeInBrowser, useBrowser } from './browser.ts';
import { deliver, MANIFESTS, MANUAL_ID } from './deliver.ts';

/** What the flow calls: it fails until somebody mends it. */
let isMended = false;
const chat = createServer((_request, response) => {
  response.writeHead(isMended ? 200 : 500, { 'content-type': 'application/json' }).end('{}');
});
await new Promise<void>((listening) => {
  chat.listen(0, '127.0.0.1', listening);
});
afterAll(() => {
  chat.close();
});

const { port: chatPort } = chat.address() as AddressInfo;
const PUSH = githubManifest({
  inputs: { webhookEnforcementMode: 'Enforce', webhookHmacKey: 'env:GITHUB_KEY' },
  steps: {
    tell: { type: 'HttpRequest', inputs: { url: `http://127.0.0.1:${chatPort}/`, method: 'POST' } },
    done: { type: 'LogMessage', inputs: { message: 'told' }, runAfter: { tell: ['Succeeded'] } },
  },
});

// One story, told in the order in which a day brings it: each test goes on from where the one before ended.
describeInBrowser('an operator’s day', () => {
  const { open, restart, service } = useBrowser({
    manifests: { ...MANIFESTS, 'push.json': PUSH },
    env: { GITHUB_KEY: `${GITHUB_SECRET}\n`, SLUICE_EGRESS_ALLOW: '127.0.0.1' },
  });
  let deliveryPath: string;
  let runPath: string;

  it('begins with a delivery that was refused, and with why', async () => {
    expect(await deliver(service().url)).toBe(401);
    const page = await open('/flows');
    await page
      .getByRole('link', { name: /signature does not match/i })
      .first()
      .click();
    await page.getByRole('heading', { level: 1, name: 'Deliveries' }).waitFor();
    await page.locator('tbody a[data-row]').click();
    await page.getByText('no signature matches a configured key').waitFor();
    await page.getByText('How to fix it').waitFor();
    await page.getByText('without the spaces or line end around it').waitFor();
    deliveryPath = new URL(page.url()).pathname;
  });

  it('the key is mended, and the delivery let in after all', async () => {
    await restart({ GITHUB_KEY: GITHUB_SECRET });
    const page = await open(deliveryPath);
    await page.getByRole('button', { name: 'Redeliver…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Would be accepted').waitFor();
    await dialog.getByRole('button', { name: 'Redeliver', exact: true }).click();
    const link = page.getByRole('link', { name: 'See the run' });
    await link.click();
    await page.getByRole('heading', { level: 1, name: 'push' }).waitFor();
    runPath = new URL(page.url()).pathname;
    expect(await deliver(service().url)).toBe(200);
  });

  it('its run fails, and is watched to the end once the cause is mended', async () => {
    const page = await open(runPath);
    await page.locator('.title-line').getByText('Failed').waitFor();
    await page.getByRole('link', { name: 'delivery', exact: true }).waitFor();
    await page.locator('.notice').getByRole('button', { name: 'tell', exact: true }).click();
    await page.getByRole('complementary', { name: 'Step tell' }).waitFor();
    isMended = true;
    await page.locator('.notice').getByRole('button', { name: 'Retry step' }).click();
    await page.locator('.title-line').getByText('Succeeded').waitFor();
  });

  it('a flow is disabled, and refuses what comes', async () => {
    const page = await open(`/flows/flows/${FLOW_ID}`);
    await page.getByRole('button', { name: 'Disable…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
    await page.getByText('push is disabled.').waitFor();
    expect(await deliver(service().url)).toBe(403);
  });

  it('ends with a schedule paused', async () => {
    const page = await open('/flows/schedules');
    await page.getByRole('button', { name: 'Pause report' }).click();
    await page.getByText('Paused', { exact: true }).waitFor();
    const schedules = await getJson<object[]>(`${service().url}/flows/api/schedules`);
    expect(schedules).toMatchObject([{ flowId: MANUAL_ID, paused: true }]);
  });
});
