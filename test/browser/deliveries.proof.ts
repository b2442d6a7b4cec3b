import { beforeAll, expect, it } from 'vitest';
import { FLOW_ID, getJson } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, hindrances, useBrowser } from './browser.ts';
import { deliver, MANIFESTS, switchFlow } from './deliver.ts';

const HOSTILE = '<img src=x onerror="window.broken=1">';

describeInBrowser('deliveries', () => {
  const { open, service } = useBrowser({ manifests: MANIFESTS });
  const newest = async (query: string): Promise<{ id: string; runId: string | null }> => {
    const url = `${service().url}/flows/api/webhooks/recent?take=1&${query}`;
    const [delivery] = await getJson<{ id: string; runId: string | null }[]>(url);
    if (delivery === undefined) throw new Error(`no delivery is like ${query}`);
    return delivery;
  };

  beforeAll(async () => {
    await Promise.all(Array.from({ length: 60 }, () => deliver(service().url)));
    await deliver(service().url, { body: JSON.stringify({ note: HOSTILE }), headers: { 'user-agent': HOSTILE } });
    await deliver(service().url, { key: 'wrong', body: '{"from":"a stranger"}' });
  });

  it('are listed by pages, found by filters, and the address keeps both', async () => {
    const page = await open('/flows/deliveries');
    await page.getByText('1–50 of 62').waitFor();
    await page.getByRole('button', { name: 'Older' }).click();
    await page.getByText('51–62 of 62').waitFor();
    await page.getByLabel('Outcome').selectOption('rejected');
    await page.getByText('Refused', { exact: true }).waitFor();
    expect(await page.getByRole('row').count()).toBe(2);
    expect(new URL(page.url()).search).toBe('?outcome=rejected');
    await page.reload();
    await page.getByText('Refused', { exact: true }).waitFor();
    await page.getByLabel('Reason').selectOption('ip_denied');
    await page.getByText('No deliveries match').waitFor();
    await page.getByRole('link', { name: 'Clear the filters' }).click();
    await page.getByText('1–50 of 62').waitFor();
  });

  it('are walked by keys: / searches, j and k choose, Enter opens', async () => {
    const page = await open('/flows/deliveries');
    await page.getByText('1–50 of 62').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('x');
    await page.keyboard.press('Backspace');
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    const { id } = await newest('');
    await page.waitForURL(`**/flows/deliveries?open=*${id}`);
    await page.goBack();
    await page.getByText('1–50 of 62').waitFor();
  });

  it('open beside the list, which keeps its place, its filter and the row, and by a link too', async () => {
    const page = await open('/flows/deliveries?outcome=accepted');
    const panel = page.getByRole('dialog', { name: 'Delivery' });
    const place = () => page.evaluate('scrollY');
    const row = page.getByRole('row').nth(30).getByRole('link').first();
    await row.focus();
    const before = await place();
    expect(before).toBeGreaterThan(0);
    await page.keyboard.press('Enter');
    await panel.getByText('Gate by gate').waitFor();
    expect(await place()).toBe(before);
    expect(await page.title()).toMatch(/^Deliveries/);
    await page.reload();
    await panel.getByText('Gate by gate').waitFor();
    await panel.getByRole('button', { name: 'Raw' }).click();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    expect(new URL(page.url()).search).toBe('?outcome=accepted');
    await row.click();
    await page.getByRole('row').nth(29).getByRole('link').first().press('Enter');
    await panel.getByText('Gate by gate').waitFor();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'detached' });
    const focused = "document.activeElement.closest('tr')?.rowIndex";
    expect(await page.evaluate(focused)).toBe(29);
    await row.click();
    await expectNoHindrance(page);
    expect(await page.evaluate("document.querySelector('.side-panel').getBoundingClientRect().width")).toBe(390);
    await panel.getByRole('link', { name: 'Open as a page' }).click();
    await page.getByRole('heading', { level: 1, name: /^Delivery/ }).waitFor();
  });

  it('tell gate by gate what became of one, and what it is signed over', async () => {
    const { id } = await newest('reason=signature_mismatch');
    const page = await open(`/flows/deliveries/${id}`);
    await page.getByText('no signature matches a configured key').waitFor();
    await page.getByText('Replay not checked').waitFor({ state: 'attached' });
    await page.getByText('"a stranger"').waitFor({ state: 'attached' });
    await page.getByRole('button', { name: 'Raw' }).click();
    await page.getByText('{"from":"a stranger"}', { exact: true }).waitFor();
    await page.getByRole('heading', { name: 'Signature and keys' }).waitFor();
  });

  it('show what a stranger wrote as text, never as markup', async () => {
    const { id } = await newest('acceptedOnly=true');
    const page = await open(`/flows/deliveries/${id}`);
    await page.getByText(HOSTILE, { exact: true }).waitFor();
    expect(await page.locator('img').count()).toBe(0);
    expect(await page.evaluate('window.broken')).toBeUndefined();
  });

  it('that were refused are redelivered once the cause is gone, the plan first', async () => {
    await switchFlow(service().url, 'disable');
    for (let left = 4; left > 0; left -= 1) expect(await deliver(service().url)).toBe(403);
    await switchFlow(service().url, 'enable');
    const { id } = await newest('reason=flow_disabled');
    const page = await open(`/flows/deliveries/${id}`);
    await page.getByRole('button', { name: 'Redeliver…' }).click();
    await page.getByRole('dialog').getByText('Would be accepted').waitFor();
    expect(await hindrances(page)).toEqual([]);
    await page.getByRole('dialog').getByRole('button', { name: 'Redeliver', exact: true }).click();
    await page.getByText('Redelivered and accepted.').waitFor();
    await page.getByText('This delivery was redelivered and accepted as').waitFor();
    expect(await page.getByRole('button', { name: 'Redeliver…' }).count()).toBe(0);

    await page.goto('/flows/deliveries?reason=flow_disabled');
    await page.getByRole('button', { name: 'Redeliver…' }).click();
    await page.getByRole('dialog').getByText('Accepted before').waitFor();
    await page.getByRole('button', { name: 'Redeliver 3 deliveries' }).click();
    await page.getByText('Done: 3 of 3').waitFor();
    const runs = await getJson<{ total: number }>(`${service().url}/flows/api/runs?includeTotal=true&take=1`);
    expect(runs.total).toBe(65);
  });

  it('refused by a gate are let in only by force, and it is said what that means', async () => {
    const { id } = await newest('reason=signature_mismatch');
    const page = await open(`/flows/deliveries/${id}`);
    await page.getByRole('button', { name: 'Redeliver…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('no signature matches a configured key').waitFor();
    expect(await dialog.getByRole('button', { name: 'Redeliver', exact: true }).isDisabled()).toBe(true);
    await dialog.getByLabel(/Overrule the gates/).check();
    await dialog.getByRole('button', { name: 'Accept it anyway' }).click();
    await page.getByText('Redelivered and accepted.').waitFor();
  });

  it('are judged again without doing anything, as they came or changed', async () => {
    const { id, runId } = await newest('acceptedOnly=true');
    const page = await open(`/flows/deliveries/${id}`);
    await page.getByRole('button', { name: 'Dry run…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Dry run' });
    await dialog.getByRole('button', { name: 'Check' }).click();
    // Its nonce is known by now, but the dialog still says that the signature verifies.
    await dialog.getByText('Would answer 409').waitFor();
    await dialog.getByText('Signature passed').waitFor();
    await dialog.getByLabel('Body, byte for byte').fill('{"changed":true}');
    await dialog.getByRole('button', { name: 'Check' }).click();
    await dialog.getByText('Would answer 401').waitFor();
    await dialog.getByLabel('Headers, one per line').fill('no header at all');
    await dialog.getByRole('button', { name: 'Check' }).click();
    await dialog.getByText('"no header at all" is not a header').waitFor();
    expect(await hindrances(page)).toEqual([]);
    expect(await newest('acceptedOnly=true')).toMatchObject({ id, runId });
  });

  it('are sent again with an edited body, and record and run say so', async () => {
    const { id } = await newest('acceptedOnly=true');
    const page = await open(`/flows/deliveries/${id}`);
    await page.getByRole('button', { name: 'Edit and send…' }).click();
    const dialog = page.getByRole('dialog');
    expect(await dialog.getByRole('button', { name: 'Send again' }).isDisabled()).toBe(true);
    await dialog.getByLabel('Body').fill('{"half"');
    await dialog.getByRole('button', { name: 'Send again' }).click();
    await dialog.getByText('Refused', { exact: true }).waitFor();
    await dialog.getByLabel('Body').fill('{"edited":true}');
    expect(await hindrances(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Send again' }).click();
    await page.getByRole('link', { name: 'See the run' }).click();
    await page.getByText('with an edited body').waitFor();
    await page.getByRole('link', { name: 'delivery', exact: true }).click();
    await page.getByText('Its publisher did not send this body.').waitFor();
    await page.goto('/flows/deliveries');
    await page.getByText('Edited', { exact: true }).waitFor();
  });

  it('say of each trigger whether it is safe to enforce', async () => {
    const page = await open('/flows/deliveries/readiness');
    await page.getByRole('heading', { name: 'push / github' }).waitFor();
    await page.getByRole('link', { name: 'Signature does not match (1)' }).click();
    await page.waitForURL(`**/flows/deliveries?flowId=${FLOW_ID}&reason=signature_mismatch`);
  });

  it('says that an unknown delivery is unknown', async () => {
    const page = await open('/flows/deliveries/00000000-0000-4000-8000-000000000000', { failures: [404] });
    await page.getByText('There is no delivery with the id 00000000-0000-4000-8000-000000000000').waitFor();
  });

  it.each(['/flows/deliveries', '/flows/deliveries/NEWEST', '/flows/deliveries/readiness'])(
    'has no accessibility violation at %s',
    async (path) => {
      const { id } = await newest('reason=signature_mismatch');
      const page = await open(path.replace('NEWEST', id));
      await page.getByText('Signature does not match').first().waitFor({ state: 'attached' });
      await page.locator('.skeleton').first().waitFor({ state: 'detached' });
      await expectNoHindrance(page);
    },
  );
});
