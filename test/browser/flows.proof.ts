import { expect, it } from 'vitest';
import { eventually, FLOW_ID, GITHUB_SECRET, getJson, githubManifest } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, hindrances, useBrowser } from './browser.ts';
import { deliver, MANIFESTS, MANUAL_ID } from './deliver.ts';

const SHOP_ID = '7b0c9f3e-1d52-4a7e-8c11-2f6d0e9a5b43';

/** Has a webhook that holds deliveries while the flow is stopped, and one that does not. */
const SHOP = {
  id: SHOP_ID,
  name: 'shop',
  version: '1',
  triggers: {
    orders: { type: 'webhook', inputs: { webhookSlug: 'orders', webhookHoldDeliveries: true } },
    visits: { type: 'webhook', inputs: { webhookSlug: 'visits' } },
  },
  steps: { note: { type: 'NoOp' } },
};

describeInBrowser('flows', () => {
  const { open, service } = useBrowser({ manifests: { ...MANIFESTS, 'shop.json': SHOP } });

  it('are listed with their triggers and found by name or slug', async () => {
    const page = await open('/flows/flows');
    await page.getByRole('link', { name: 'report' }).waitFor();
    await page.getByRole('searchbox').fill('push');
    await page.getByRole('link', { name: 'report' }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'push', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'push' }).waitFor();
    expect(await page.title()).toBe('push · Sluice');
  });

  it('are sorted by a click on a heading, and the address keeps it', async () => {
    const page = await open('/flows/flows');
    const names = async () => (await page.locator('tbody a[data-row]').allTextContents()).join();
    await page.getByRole('button', { name: 'Flow', exact: true }).click();
    await page
      .getByRole('columnheader', { name: 'Flow', exact: true })
      .and(page.locator('[aria-sort=ascending]'))
      .waitFor();
    expect(await names()).toBe('push,report,shop');
    await page.getByRole('button', { name: 'Flow', exact: true }).click();
    await page.locator('[aria-sort=descending]').waitFor();
    expect(await names()).toBe('shop,report,push');
    await page.reload();
    await page.locator('[aria-sort=descending]').waitFor();
    expect(await names()).toBe('shop,report,push');
  });

  it('show what came in the last two hours', async () => {
    const statuses = [await deliver(service().url), await deliver(service().url, { key: 'wrong' })];
    expect(statuses).toEqual([200, 401]);
    const page = await open('/flows/flows');
    const row = page.getByRole('row', { name: /^push/ });
    await row.waitFor();
    const headings = await page.getByRole('columnheader').allTextContents();
    const cellOf = (heading: string) => row.getByRole('cell').nth(headings.indexOf(heading));
    for (const [heading, shown] of [
      ['Deliveries, 2 h', '2'],
      ['Refused, 2 h', '1'],
    ] as const)
      await cellOf(heading).getByText(shown, { exact: true }).waitFor();
  });

  it('show their graph, and addresses and commands that can be pasted as they are', async () => {
    const page = await open(`/flows/flows/${FLOW_ID}`);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByText('second').first().waitFor();
    const { url } = service();
    await page.getByText(`${url}/flows/api/webhook/push`, { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Copy the command' }).click();
    await page.getByText('Copied').waitFor({ state: 'attached' });
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(`npx @sluicehq/sluice send push --to ${url}`);
  });

  it('never show a secret', async () => {
    const page = await open(`/flows/flows/${FLOW_ID}?view=manifest`);
    await page.getByText('webhookSlug').waitFor({ state: 'attached' });
    expect(await page.content()).not.toContain(GITHUB_SECRET);
    await page.getByText('"***"').waitFor({ state: 'attached' });
  });

  it('are disabled when that is confirmed, and enabled again', async () => {
    const page = await open(`/flows/flows/${FLOW_ID}`);
    await page.getByRole('button', { name: 'Disable…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    expect(await deliver(service().url)).toBe(200);
    await page.getByRole('button', { name: 'Disable…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
    await page.getByText('push is disabled.').waitFor();
    expect(await deliver(service().url)).toBe(403);
    expect(await page.getByRole('button', { name: 'Start a run…' }).isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'Enable' }).click();
    await page.getByText('push is enabled.').waitFor();
    expect(await deliver(service().url)).toBe(200);
  });

  it('tell what each revision changed, how grave that is, and where it differs', async () => {
    const manifest = githubManifest({
      inputs: { webhookEnforcementMode: 'Enforce' },
      steps: { first: { type: 'NoOp' }, second: { type: 'NoOp', runAfter: { first: ['Succeeded'] } } },
    });
    const deployed = await fetch(`${service().url}/flows/api/flows/${FLOW_ID}?allow=caution`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...manifest, version: '1.1' }),
    });
    expect(deployed.status).toBe(200);
    const page = await open(`/flows/flows/${FLOW_ID}`);
    await page.getByRole('button', { name: 'Revisions' }).click();
    expect(new URL(page.url()).search).toBe('?view=revisions');
    const newest = page.getByRole('listitem').filter({ hasText: 'Revision 2' });
    await newest.getByText('In force').waitFor();
    await newest.getByText('Caution').first().waitFor();
    await newest.getByRole('button', { name: 'Compare with 1' }).click();
    const dialog = page.getByRole('dialog', { name: 'Revision 1 to 2' });
    await dialog.getByText('− "LogMessage"').waitFor();
    expect(await hindrances(page)).toEqual([]);
  });

  it('are drained when that is confirmed, and resumed', async () => {
    const page = await open(`/flows/flows/${FLOW_ID}`);
    await page.getByRole('button', { name: 'Drain…' }).click();
    await page.getByLabel('Deliveries meanwhile').selectOption('are refused with 403');
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
    await page.getByText('Drained: ready to deploy').waitFor();
    expect(await deliver(service().url)).toBe(403);
    await expectNoHindrance(page);
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.getByText('The flow starts runs again.').waitFor();
    await page.getByRole('button', { name: 'Drain…' }).waitFor();
    expect(await deliver(service().url)).toBe(200);
  });

  it('say before a drain which webhooks hold deliveries, and a held one says so until its run starts', async () => {
    const page = await open(`/flows/flows/${SHOP_ID}`);
    await page.getByRole('button', { name: 'Drain…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Deliveries meanwhile').selectOption('are held for orders, and refused for the others');
    await dialog.getByLabel(/^Reason/).fill('version 2 changes its steps');
    await dialog.getByRole('button', { name: 'Drain' }).click();
    await page.getByText('Drained: ready to deploy').waitFor();
    const answer = await fetch(`${service().url}/flows/api/webhook/orders`, { method: 'POST', body: '{}' });
    const { deliveryId } = (await answer.json()) as { deliveryId: string };
    await page.goto(`/flows/deliveries/${deliveryId}`);
    await page.getByText('Held', { exact: true }).waitFor();
    await page.getByText('starts once the flow is enabled or resumed').waitFor();
    await fetch(`${service().url}/flows/api/flows/${SHOP_ID}/resume`, { method: 'POST' });
    await eventually(
      () => getJson<{ held: boolean }>(`${service().url}/flows/api/webhooks/${deliveryId}`),
      ({ held }) => !held,
    );
    await page.reload();
    await page.getByText('Accepted', { exact: true }).waitFor();
  });

  it('lose what they hold when that is confirmed with a reason, and nothing before', async () => {
    const flow = `${service().url}/flows/api/flows/${SHOP_ID}`;
    await fetch(`${flow}/disable`, { method: 'POST', body: '{"hold":true}' });
    await fetch(`${service().url}/flows/api/webhook/orders`, { method: 'POST', body: '{}' });
    const page = await open(`/flows/flows/${SHOP_ID}`);
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Discard held…' }).click();
    await dialog.getByText('1 accepted delivery never start').waitFor();
    await dialog.getByRole('button', { name: 'Keep them' }).click();
    expect(await getJson(flow)).toMatchObject({ held: 1 });
    await page.getByRole('button', { name: 'Discard held…' }).click();
    expect(await dialog.getByRole('button', { name: 'Discard' }).isDisabled()).toBe(true);
    await dialog.getByLabel(/^Reason/).fill('the shop was migrated by hand');
    await dialog.getByRole('button', { name: 'Discard' }).click();
    await page.getByText('1 held delivery is discarded.').waitFor();
    await page.getByRole('button', { name: 'Discard held…' }).waitFor({ state: 'detached' });
    expect(await getJson(flow)).toMatchObject({ held: 0 });
    await fetch(`${flow}/enable`, { method: 'POST' });
  });

  it('are started by hand, with a body that must be JSON', async () => {
    const page = await open(`/flows/flows/${MANUAL_ID}`);
    await page.getByRole('button', { name: 'Start a run…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Start a run of report' });
    await dialog.getByLabel(/^Body, as JSON/).fill('{"amount": }');
    await dialog.getByText('This is not JSON').waitFor();
    expect(await dialog.getByRole('button', { name: 'Start' }).isDisabled()).toBe(true);
    await dialog.getByLabel(/^Body, as JSON/).fill('{"amount": 120}');
    expect(await hindrances(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Start' }).click();
    const link = page.getByRole('link', { name: 'See the run' });
    await link.waitFor();
    const href = await link.getAttribute('href');
    const run = await getJson<object>(`${service().url}/flows/api/runs/${href?.split('/').at(-1)}`);
    expect(run).toMatchObject({ flowId: MANUAL_ID, triggerType: 'manual', triggerBody: { amount: 120 } });
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Runs', exact: true }).click();
    await page.getByRole('img', { name: 'Runs over the last 24 hours: 1 succeeded' }).waitFor();
    await page.getByText('Succeeded').first().waitFor();
  });

  it.each([
    '/flows/flows',
    `/flows/flows/${FLOW_ID}`,
    ...['runs', 'readiness', 'revisions', 'manifest'].map((view) => `/flows/flows/${FLOW_ID}?view=${view}`),
  ])('has no accessibility violation at %s', async (path) => {
    const page = await open(path);
    await page.getByText('push').first().waitFor();
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    await expectNoHindrance(page);
  });
});
