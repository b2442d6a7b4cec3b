import { expect, it } from 'vitest';
import { githubManifest } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, useBrowser } from './browser.ts';

describeInBrowser('the publishers', () => {
  const { open } = useBrowser({ manifests: { 'push.json': githubManifest() } });

  it('are searched and opened by keyboard alone, and one has steps, facts and a trigger', async () => {
    const page = await open('/flows/publishers');
    await page.locator('[data-row]').first().waitFor();
    await expectNoHindrance(page);
    await page.keyboard.press('/');
    await page.keyboard.type('git lab');
    await page.locator('[data-row]', { hasText: 'Ably' }).waitFor({ state: 'detached' });
    expect(await page.locator('[data-row]').allTextContents()).toEqual(['GitLab']);
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'GitLab', exact: true }).waitFor();
    await page.getByRole('listitem').filter({ hasText: 'Add new webhook' }).waitFor();
    await page.getByText('X-Gitlab-Token').first().waitFor();
    await page.getByText('"webhookSignatureScheme": "GitLab"').waitFor();
    await expectNoHindrance(page);
  });

  it('fit a narrow screen', async () => {
    const page = await open('/flows/publishers/Twilio');
    await page.setViewportSize({ width: 390, height: 800 });
    await page.getByText('"webhookSignatureScheme": "Twilio"').waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
  });

  it('lead to the deploy of their trigger', async () => {
    // The plan is refused because the folder names no such variable; this test is only about the editor.
    const page = await open('/flows/publishers/Stripe', { failures: [400] });
    await page.getByRole('link', { name: 'Deploy it…' }).click();
    await page.getByText('"Stripe"').first().waitFor();
    await page.getByText('may not be referenced by a manifest').waitFor();
  });
});
