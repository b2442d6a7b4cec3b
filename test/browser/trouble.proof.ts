import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { githubManifest } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, useBrowser } from './browser.ts';

const PAGES = [
  '/flows',
  '/flows/deliveries',
  '/flows/deliveries/readiness',
  '/flows/flows',
  '/flows/flows/new',
  '/flows/runs',
  '/flows/schedules',
  '/flows/hosts',
  '/flows/activity',
  '/flows/no/such/place',
];

describeInBrowser('a service in trouble', () => {
  const { open, workspace, service } = useBrowser({
    manifests: { 'push.json': githubManifest() },
    env: { SLUICE_DATABASE_URL: 'sqlite:locked.db' },
  });

  /** Locks the database file so that the service cannot use it; returns what unlocks it. */
  function lock(): () => void {
    const db = new SqliteDatabase(join(workspace().folder, 'locked.db'));
    db.exec('BEGIN IMMEDIATE');
    const unlock = () => void db.close();
    onTestFinished(unlock);
    return unlock;
  }

  it('says on every page that the store does not answer, until it does', async () => {
    const page = await open('/flows', { failures: [503] });
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    const unlock = lock();
    const banner = page.getByText('The service is not ready.');
    await page.getByRole('alert').filter({ has: banner }).waitFor();
    await expectNoHindrance(page);
    for (const path of PAGES) {
      await page.goto(path);
      await page.getByRole('alert').filter({ has: banner }).waitFor();
    }
    unlock();
    await banner.waitFor({ state: 'detached' });
  });

  it('says so although updates are paused', async () => {
    const page = await open('/flows/runs', { failures: [503] });
    await page.getByRole('button', { name: 'Live', exact: true }).click();
    await page.getByRole('button', { name: 'Paused' }).waitFor();
    const unlock = lock();
    await page.getByRole('alert').getByText('The service is not ready.').waitFor();
    unlock();
    await page.getByText('The service is not ready.').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Paused' }).waitFor();
  });

  it('says that the process does not answer, until it does', async () => {
    const page = await open('/flows/deliveries');
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    service().child.kill('SIGSTOP');
    onTestFinished(() => void service().child.kill('SIGCONT'));
    await page.getByRole('alert').getByText('The service does not answer.').waitFor();
    service().child.kill('SIGCONT');
    await page.getByText('The service does not answer.').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
  });
});

describeInBrowser('what could not be read', () => {
  const { open } = useBrowser({ manifests: { 'push.json': githubManifest() } });

  it.each([
    ['/flows/deliveries', '**/flows/api/webhooks/recent?*', 'No deliveries'],
    ['/flows/runs', '**/flows/api/runs?*', 'No runs'],
    ['/flows/flows', '**/flows/api/flows*', 'No flows'],
    ['/flows/schedules', '**/flows/api/schedules*', 'No schedules'],
    ['/flows/hosts', '**/flows/api/hosts*', 'No hosts'],
    ['/flows/activity', '**/flows/api/activity*', 'No activity'],
  ])('is no empty list on %s', async (path, asked, empty) => {
    const page = await open('/flows/no/such/place', { failures: [503] });
    await page.route(asked, (route) => route.fulfill({ status: 503, json: { message: 'The store is unavailable' } }));
    await page.goto(path);
    await page.locator('main').getByRole('alert').getByText('The store is unavailable').first().waitFor();
    expect(await page.getByText(empty).count()).toBe(0);
  });

  it('is no flow left out of the filter', async () => {
    const page = await open('/flows/no/such/place', { failures: [503] });
    await page.route('**/flows/api/flows*', (route) =>
      route.fulfill({ status: 503, json: { message: 'The store is unavailable' } }),
    );
    await page.goto('/flows/runs');
    await page.getByLabel('Flow').getByText('Flows could not be read').waitFor({ state: 'attached' });
  });
});
