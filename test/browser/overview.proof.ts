import { expect, it } from 'vitest';
import { describeInBrowser, expectNoHindrance, hindrances, useBrowser } from './browser.ts';
import { deliver, MANIFESTS } from './deliver.ts';

describeInBrowser('the overview', () => {
  const { open, service } = useBrowser({ manifests: MANIFESTS });

  it('says how to send the first delivery while none has come, and shows it by itself when it comes', async () => {
    const page = await open('/flows');
    await page.getByText(`npx @sluicehq/sluice send push --to ${service().url}`).waitFor();
    expect(await hindrances(page)).toEqual([]);
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    expect(await deliver(service().url)).toBe(200);
    await page
      .getByRole('img', { name: 'Deliveries over the time since the first event: 1 accepted, 0 failed a gate' })
      .waitFor();
    await page.getByRole('img', { name: 'Runs over the time since the first event: 1 succeeded' }).waitFor();
    await page.getByText('npx @sluicehq/sluice send').waitFor({ state: 'detached' });
  });

  it('counts why deliveries failed, and leads to them', async () => {
    expect(await deliver(service().url, { key: 'wrong' })).toBe(401);
    const page = await open('/flows');
    await page.getByRole('link', { name: /Signature does not match\s*1/ }).click();
    await page.waitForURL('**/flows/deliveries?reason=signature_mismatch');
    await page.getByRole('cell', { name: 'Signature does not match' }).waitFor();
  });

  it('keeps the window of its charts in the address', async () => {
    const page = await open('/flows?window=30d');
    await page.getByRole('button', { name: '30 d', pressed: true }).waitFor();
    await page.getByRole('button', { name: '7 d' }).click();
    await page.getByRole('button', { name: '7 d', pressed: true }).waitFor();
    expect(new URL(page.url()).search).toBe('?window=7d');
  });

  it('lists the replicas where there are several, and none where there is one', async () => {
    const page = await open('/flows');
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    expect(await page.getByRole('region', { name: 'Replicas' }).count()).toBe(0);
    // Yesterday, so that the text is the same however long the page takes to load.
    const at = new Date(Date.now() - 36 * 3_600_000).toISOString();
    const one = {
      name: 'one',
      version: '1.2.3',
      startedAt: at,
      seenAt: at,
      clockOffsetMs: 0,
      stepsRunning: 7,
      self: true,
    };
    const json = [one, { ...one, name: 'two', version: '1.2.4', stepsRunning: 0, self: false }];
    await page.route('**/flows/api/replicas', (route) => route.fulfill({ json }));
    await page.reload();
    const rows = page.getByRole('region', { name: 'Replicas' }).getByRole('row');
    await rows.filter({ hasText: /one \(this one\).*1\.2\.3.*7.*1 d ago/ }).waitFor();
    await rows.filter({ hasText: /two.*1\.2\.4.*0.*1 d ago/ }).waitFor();
    expect(await rows.count()).toBe(3);
    await expectNoHindrance(page);
  });

  it('lists who has deliveries sent on, and forgets one that is gone', async () => {
    const page = await open('/flows');
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    const panel = page.getByRole('region', { name: 'Forwarding' });
    expect(await panel.count()).toBe(0);
    const consumer = `${service().url}/flows/api/webhooks/consumers/ada@laptop`;
    const flows = (await (await fetch(`${service().url}/flows/api/flows`)).json()) as { id: string; name: string }[];
    const [flow] = flows.filter(({ name }) => name === 'push');
    expect((await fetch(consumer, { method: 'PUT', body: JSON.stringify({ flowId: flow?.id }) })).status).toBe(200);
    await page.reload();
    await panel
      .getByRole('row')
      .filter({ hasText: /ada@laptop.*push/ })
      .waitFor();
    await expectNoHindrance(page);
    await panel.getByRole('button', { name: 'Forget…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Forget', exact: true }).click();
    await panel.waitFor({ state: 'detached' });
    expect((await fetch(consumer)).status).toBe(404);
  });

  it('has no accessibility violation', async () => {
    const page = await open('/flows');
    await page.getByRole('img', { name: /^Deliveries/ }).waitFor();
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    await expectNoHindrance(page);
  });
});
