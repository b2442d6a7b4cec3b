import { expect, it } from 'vitest';
import { githubManifest } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, useBrowser } from './browser.ts';

describeInBrowser('the shell of the page', () => {
  const { open } = useBrowser({ manifests: { 'push.json': githubManifest() } });

  it('says that an unknown address does not exist, with a way back', async () => {
    const page = await open('/flows/no/such/place');
    await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor();
    expect(await page.title()).toBe('Page not found · Sluice');
    await page.getByRole('link', { name: 'Go to the overview' }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/flows');
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor();
  });

  it('keeps the colours that were chosen, from the first byte of the next page', async () => {
    const page = await open('/flows');
    const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor');
    const light = await background();
    await page.getByRole('button', { name: 'Colours: system; change' }).click();
    await page.getByRole('button', { name: 'Colours: light; change' }).click();
    expect(await background()).not.toBe(light);
    const html = await (await page.reload())?.text();
    expect(html).toContain('data-theme="dark"');
    await page.getByRole('button', { name: 'Colours: dark; change' }).click();
    expect(await background()).toBe(light);
  });

  it('goes to places by keys and shows which there are', async () => {
    const page = await open('/flows');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('g');
    await page.keyboard.press('d');
    await page.waitForURL('**/flows/deliveries');
  });

  it('lets a keyboard skip the navigation', async () => {
    const page = await open('/flows');
    await page.getByRole('link', { name: 'Skip to content' }).press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('content');
  });

  it('says whether it is live, and can be paused', async () => {
    const page = await open('/flows');
    await page.getByRole('button', { name: 'Live', exact: true }).click();
    await page.getByRole('button', { name: 'Paused' }).click();
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
  });

  it('has no accessibility violation', async () => {
    const page = await open('/flows/no/such/place');
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    await expectNoHindrance(page);
  });
});

describeInBrowser('the login page', () => {
  const { open } = useBrowser({
    manifests: { 'push.json': githubManifest() },
    env: { SLUICE_DASHBOARD_TOKEN: 'the-token-of-operators' },
  });

  it('lets in who has the token, to where they wanted to go, and out again', async () => {
    const page = await open('/flows/runs?status=Failed', { failures: [401] });
    await expectNoHindrance(page);
    await page.getByLabel('Token').fill('another-token-of-somebody');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('These credentials are not correct; try again.').waitFor();
    await page.getByLabel('Token').fill('the-token-of-operators');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
    expect(new URL(page.url()).search).toBe('?status=Failed');
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Log out token' }).click();
    await page.getByLabel('Token').waitFor();
    await page.goto('/flows/runs');
    expect(new URL(page.url()).pathname).toBe('/flows/login');
  });

  it('is not asked for again where another site links to a page', async () => {
    const page = await open('/flows', {});
    await page.getByLabel('Token').fill('the-token-of-operators');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    const href = new URL('/flows/runs', page.url()).href;
    await page.goto(`data:text/html,<a href="${href}">the run that failed</a>`);
    await page.getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
  });
});

describeInBrowser('the page behind a login', () => {
  const { open } = useBrowser({
    manifests: { 'push.json': githubManifest() },
    env: { SLUICE_DASHBOARD_USER: 'ops', SLUICE_DASHBOARD_PASSWORD: 'right' },
    credentials: { username: 'ops', password: 'right' },
  });

  it('is shown, asks the API and is live with the login that the browser was given once', async () => {
    const page = await open('/flows/flows');
    await page.getByRole('link', { name: 'push', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
  });
});
