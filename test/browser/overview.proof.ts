import { expect, it } from 'vitest';
import { describeInBrowser, expectNoHindrance, hindrances, useBrowser } from './browser.ts';
import { deliver, MANIFESTS } from './deliver.ts';

describeInBrowser('the overview', () => {
  const { open, service } = useBrowser({ manifests: MANIFESTS });

  it('says how to send the first delivery while none has come, and shows it by itself when it comes', async () => {
    const page = await open('/flows');
    await page.getByText(`npx sluice send push --to ${service().url}`).waitFor();
    expect(await hindrances(page)).toEqual([]);
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    expect(await deliver(service().url)).toBe(200);
    await page.getByRole('img', { name: 'Deliveries over the last 24 hours: 1 accepted, 0 failed a gate' }).waitFor();
    await page.getByRole('img', { name: 'Runs over the last 24 hours: 1 succeeded' }).waitFor();
    await page.getByText('npx sluice send').waitFor({ state: 'detached' });
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
    await page.getByRole('img', { name: /^Deliveries over the last 30 days/ }).waitFor();
    await page.getByRole('button', { name: '7 d' }).click();
    await page.getByRole('img', { name: /^Deliveries over the last 7 days/ }).waitFor();
    expect(new URL(page.url()).search).toBe('?window=7d');
  });

  it('has no accessibility violation', async () => {
    const page = await open('/flows');
    await page.getByRole('img', { name: /^Deliveries/ }).waitFor();
    await page.locator('.skeleton').first().waitFor({ state: 'detached' });
    await expectNoHindrance(page);
  });
});
