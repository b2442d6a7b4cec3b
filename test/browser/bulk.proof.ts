import { expect, it } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, useBrowser } from './browser.ts';
import { APPROVAL_ID, RUN_MANIFESTS, runStatus, startRun } from './run-flows.ts';

describeInBrowser('many runs', () => {
  const { open, service } = useBrowser({ manifests: RUN_MANIFESTS });

  it('are cancelled as planned, with a reason, and started again', async () => {
    const { url } = service();
    const runs = await Promise.all([1, 2, 3].map(() => startRun(url, APPROVAL_ID)));
    const page = await open(`/flows/runs?flowId=${APPROVAL_ID}`);
    await page.getByRole('button', { name: 'Cancel all…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel runs' });
    await dialog.getByText('3 runs will be cancelled.').waitFor();
    await expectNoHindrance(page);
    await dialog.getByRole('textbox').fill('ordered twice');
    const later = await startRun(url, APPROVAL_ID);
    await dialog.getByRole('button', { name: 'Cancel 3 runs' }).click();
    await dialog.getByText('Done: 3 of 3 runs').waitFor();
    await dialog.getByText('3 runs cancelled.').waitFor();
    expect(await Promise.all([...runs, later].map((id) => runStatus(url, id)))).toEqual([
      'Cancelled',
      'Cancelled',
      'Cancelled',
      'Running',
    ]);
    await dialog.getByRole('button', { name: 'Close' }).last().click();

    await page.getByRole('combobox', { name: 'Status' }).selectOption('Cancelled');
    await page.getByRole('button', { name: 'Run all again…' }).click();
    await page.getByText('3 runs will be started again.').waitFor();
    await page.getByRole('button', { name: 'Start 3 runs again' }).click();
    await page.getByText('3 runs started again.').waitFor();
    await eventually(
      async () => (await (await fetch(`${url}/flows/api/runs?status=Running`)).json()) as object[],
      (running) => running.length === 4,
    );
    await page.goto('/flows/activity');
    await page.getByRole('cell', { name: 'Cancel many runs' }).getByText('ordered twice').waitFor();
  });

  it('that are none to do it to offer nothing', async () => {
    const page = await open('/flows/runs?search=no-such-run');
    await page.getByRole('button', { name: 'Retry all…' }).click();
    await page.getByText('0 runs will be retried.').waitFor();
    expect(await page.getByRole('button', { name: 'Nothing to do' }).isDisabled()).toBe(true);
  });
});
