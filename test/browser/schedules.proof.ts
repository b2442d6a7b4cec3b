import { expect, it } from 'vitest';
import { getJson } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, hindrances, useBrowser } from './browser.ts';
import { NIGHTLY_ID, RUN_MANIFESTS } from './run-flows.ts';

interface Schedule {
  readonly cron: string;
  readonly paused: boolean;
}

describeInBrowser('schedules', () => {
  const { open, service } = useBrowser({ manifests: RUN_MANIFESTS });
  const schedule = async () => (await getJson<Schedule[]>(`${service().url}/flows/api/schedules`))[0];

  it('are paused and resumed', async () => {
    const page = await open('/flows/schedules');
    await page.getByRole('button', { name: 'Pause Nightly report' }).click();
    await page.getByText('Paused', { exact: true }).waitFor();
    expect((await schedule())?.paused).toBe(true);
    await page.getByRole('button', { name: 'Resume Nightly report' }).click();
    await page.getByText('Next:').waitFor();
    expect((await schedule())?.paused).toBe(false);
  });

  it('are started now, with a way to the run', async () => {
    const page = await open('/flows/schedules');
    await page.getByRole('button', { name: 'Run now Nightly report' }).click();
    await page.getByRole('link', { name: 'See the run' }).click();
    await page.getByRole('heading', { level: 1, name: 'Nightly report' }).waitFor();
    await page.locator('.title-line').getByText('Succeeded').waitFor();
  });

  it('show when a changed expression fires before it is saved, and what is wrong with one that does not parse', async () => {
    const page = await open('/flows/schedules', { failures: [400] });
    await page.getByRole('button', { name: 'Edit… Nightly report' }).click();
    const dialog = page.getByRole('dialog', { name: 'When Nightly report / nightly fires' });
    await dialog
      .getByText(/02:00:00/)
      .first()
      .waitFor();
    expect(await dialog.getByText(/02:00:00/).count()).toBe(5);
    const save = dialog.getByRole('button', { name: 'Save' });
    await dialog.getByLabel(/^Cron expression/).fill('61 * * * *');
    await dialog.getByText(/^cronExpression: /).waitFor();
    expect(await save.isDisabled()).toBe(true);
    expect(await hindrances(page)).toEqual([]);
    await dialog.getByLabel(/^Cron expression/).fill('30 4 * * *');
    await dialog
      .getByText(/04:30:00/)
      .first()
      .waitFor();
    await save.click();
    await page.getByText('The schedule fires at').waitFor();
    await page.getByText('changed; the manifest says 0 2 * * *').waitFor();
    expect(await schedule()).toMatchObject({ cron: '30 4 * * *', flowId: NIGHTLY_ID });
  });

  it('has no accessibility violation', async () => {
    const page = await open('/flows/schedules');
    await page.getByRole('link', { name: 'Nightly report' }).waitFor();
    await expectNoHindrance(page);
  });
});

describeInBrowser('a service without schedules', () => {
  const { open } = useBrowser({ manifests: { 'approval.json': RUN_MANIFESTS['approval.json'] } });

  it('says how a flow gets one, and what makes a first run', async () => {
    const page = await open('/flows/schedules');
    await page.getByText('No flow has a schedule').waitFor();
    await expectNoHindrance(page);
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.getByText('No runs yet').waitFor();
    await expectNoHindrance(page);
  });
});
