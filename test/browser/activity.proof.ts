import { expect, it } from 'vitest';
import { describeInBrowser, expectNoHindrance, hindrances, useBrowser } from './browser.ts';
import { NIGHTLY_ID, RUN_MANIFESTS } from './run-flows.ts';

const UNKNOWN_RUN = '00000000-0000-4000-8000-000000000009';

describeInBrowser('the activity', () => {
  const { open, service } = useBrowser({ manifests: RUN_MANIFESTS });
  const post = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${service().url}/flows/api${path}`, { method: 'POST', headers });
    return response.json() as Promise<{ runId?: string }>;
  };

  it('is empty at first and says what it will list', async () => {
    const page = await open('/flows');
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Activity' }).click();
    await page.getByRole('heading', { level: 1, name: 'Activity' }).waitFor();
    await page.getByText('No one has changed anything yet').waitFor();
    await expectNoHindrance(page);
  });

  it('lists who did what to which target, why, and how it ended', async () => {
    const { runId = '' } = await post(`/flows/${NIGHTLY_ID}/trigger`);
    await post(`/flows/${NIGHTLY_ID}/disable`, { 'x-sluice-reason': 'The report is wrong' });
    await post(`/runs/${UNKNOWN_RUN}/steps/collect/retry`);
    const page = await open('/flows/activity');
    const disabled = page.getByRole('row', { name: /Disable a flow/ });
    await disabled.getByText('The report is wrong').waitFor();
    await disabled.getByText('anyone').waitFor();
    await disabled.getByText('Done').waitFor();
    expect(await disabled.getByRole('link', { name: 'Nightly report' }).getAttribute('href')).toBe(
      `/flows/flows/${NIGHTLY_ID}`,
    );
    const retried = page.getByRole('row', { name: /Retry a step/ });
    await retried.getByText('Step: collect').waitFor();
    await retried.getByText('Refused').waitFor();
    expect(await retried.getByRole('link', { name: /^Run / }).getAttribute('href')).toBe(`/flows/runs/${UNKNOWN_RUN}`);
    expect(runId).not.toBe('');
    await expectNoHindrance(page);
  });

  it('is filtered by action, actor, target and time, and the address keeps the filters', async () => {
    const page = await open('/flows/activity');
    const rows = page.getByRole('table').getByRole('row');
    await page.getByLabel('Action').selectOption('disableFlow');
    await page.waitForURL('**/flows/activity?action=disableFlow');
    await page.getByRole('row', { name: /Retry a step/ }).waitFor({ state: 'detached' });
    // While the list loads again, there are no rows.
    await page.getByRole('row', { name: /Disable a flow/ }).waitFor();
    expect(await rows.count()).toBe(2);
    await page.getByRole('combobox', { name: 'Time' }).selectOption('Last hour');
    await page.waitForURL('**&last=1h');
    await page.getByRole('combobox', { name: 'Time' }).selectOption('From … to …');
    await page.getByRole('textbox', { name: 'From' }).fill('2020-02-03T04:05');
    await page.waitForURL('**&since=2020-02-0*');
    await page.reload();
    expect(await page.getByRole('textbox', { name: 'From' }).inputValue()).toBe('2020-02-03T04:05');
    await page.getByRole('row', { name: /Disable a flow/ }).waitFor();
    await page.getByLabel('Actor').fill('nobody');
    await page.getByText('No actions match').waitFor();
    expect(await hindrances(page)).toEqual([]);
    await page.getByRole('link', { name: 'Clear the filters' }).click();
    await page.getByLabel('Id of a flow, run or delivery').fill(UNKNOWN_RUN);
    await page.waitForURL(`**/flows/activity?target=${UNKNOWN_RUN}`);
    await page.getByRole('row', { name: /Disable a flow/ }).waitFor({ state: 'detached' });
    await page.getByRole('row', { name: /Retry a step/ }).waitFor();
  });

  it('says that it cannot be read, and asks again', async () => {
    const page = await open('/flows/activity?since=yesterday', { failures: [400] });
    await page.getByRole('alert').getByText('since').waitFor();
    await page.getByRole('button', { name: 'Try again' }).waitFor();
  });
});
