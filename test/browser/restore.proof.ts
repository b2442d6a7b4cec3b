import { expect, it } from 'vitest';
import { getJson } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, useBrowser } from './browser.ts';

const ID = '2f0d8f4e-7c3a-4b59-9d16-83e5a1c0b7d2';
const FIRST = {
  id: ID,
  name: 'invoice',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: {
    read: { type: 'NoOp' },
    wait: { type: 'WaitForSignal', inputs: { signalName: 'go' }, runAfter: { read: ['Succeeded'] } },
  },
};
/** Has its steps in another order, and one that the first lacks. */
const SECOND = {
  ...FIRST,
  version: '2',
  steps: { ...FIRST.steps, check: { type: 'NoOp' }, wait: { ...FIRST.steps.wait, runAfter: { check: ['Succeeded'] } } },
};

describeInBrowser('a revision', () => {
  const { open, service } = useBrowser({ manifests: { 'invoice.json': FIRST } });
  const send = (method: 'PUT' | 'POST', path: string, body?: object) =>
    fetch(`${service().url}/flows/api/flows/${ID}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
  const inForce = async () =>
    await getJson<{ revision: number; version: string }>(`${service().url}/flows/api/flows/${ID}`);
  const dialogOf = async (revision: number, failures: readonly number[] = []) => {
    const page = await open(`/flows/flows/${ID}?view=revisions`, { failures });
    await page.getByRole('button', { name: `Restore… revision ${revision}` }).click();
    return { page, dialog: page.getByRole('dialog', { name: `Restore revision ${revision}` }) };
  };

  it('is restored after its findings were shown', async () => {
    expect((await send('PUT', '', SECOND)).status).toBe(200);
    const { page, dialog } = await dialogOf(1);
    await dialog.getByText('Caution').first().waitFor();
    await dialog.getByText('no run is in flight').waitFor();
    expect(await inForce()).toMatchObject({ revision: 2 });
    await expectNoHindrance(page);
    await dialog.getByRole('button', { name: 'Restore' }).click();
    await page.getByText('Revision 1 is in force again, as revision 3.').waitFor();
    await page.getByRole('listitem').filter({ hasText: 'Revision 3' }).getByText('In force').waitFor();
    expect(await inForce()).toMatchObject({ revision: 3, version: '1' });
    expect(await page.getByRole('button', { name: 'Restore… revision 3' }).count()).toBe(0);
  });

  it('is not restored while that is refused, until it is allowed by name', async () => {
    expect((await send('POST', '/trigger')).status).toBe(200);
    const { page, dialog } = await dialogOf(2, [409]);
    await dialog.getByText('Refused').waitFor();
    const button = dialog.getByRole('button', { name: 'Restore' });
    expect(await button.isDisabled()).toBe(true);
    await expectNoHindrance(page);
    await dialog.getByRole('checkbox', { name: 'Restore it while 1 run is in flight, without a drain' }).check();
    await dialog.getByText('Refused').waitFor({ state: 'detached' });
    await button.click();
    await page.getByText('Revision 2 is in force again, as revision 4.').waitFor();
    await page
      .getByRole('listitem')
      .filter({ hasText: 'Revision 4' })
      .getByText('Allowed: caution, rollback')
      .waitFor();
  });

  it('that has the manifest in force already is not restored', async () => {
    const { dialog } = await dialogOf(2);
    await dialog.getByText('Revision 4 has the same manifest.').waitFor();
    expect(await dialog.getByRole('button', { name: 'Restore' }).isDisabled()).toBe(true);
  });

  it('that cannot be judged says why', async () => {
    const page = await open(`/flows/flows/${ID}?view=revisions`, { failures: [503] });
    const message = 'The store is unavailable; try again';
    await page.route('**/restore?*', (route) => route.fulfill({ status: 503, json: { statusCode: 503, message } }));
    await page.getByRole('button', { name: 'Restore… revision 1' }).click();
    const dialog = page.getByRole('dialog', { name: 'Restore revision 1' });
    await dialog.getByRole('alert').getByText(message).waitFor();
    expect(await dialog.getByRole('button', { name: 'Restore' }).isDisabled()).toBe(true);
  });
});
