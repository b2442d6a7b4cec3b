import { expect, it } from 'vitest';
import { eventually } from '../e2e/service.ts';
import type { Page } from '../oracles/chromium.ts';
import { describeInBrowser, expectNoHindrance, useBrowser } from './browser.ts';

const ORDERS_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
const OTHER_ID = 'c3f1b7d2-5a48-4e0b-8d6c-2b9f14e07a35';
const ORDERS = {
  id: ORDERS_ID,
  name: 'Orders',
  version: '1.0.0',
  triggers: { byHand: { type: 'manual' } },
  steps: { greet: { type: 'LogMessage', inputs: { message: 'hello' } } },
};

describeInBrowser('the deploy form', () => {
  const { open, service } = useBrowser({ manifests: { 'orders.json': ORDERS } });

  const editorOf = (page: Page) => page.getByRole('textbox', { name: 'Manifest' });
  const write = async (page: Page, text: string) => {
    await editorOf(page).focus();
    await page.keyboard.press('ControlOrMeta+A');
    await page.keyboard.insertText(text);
  };
  const flow = async (id: string) => (await fetch(`${service().url}/flows/api/flows/${id}`)).json();
  const deployButton = (page: Page) => page.getByRole('button', { name: 'Deploy', exact: true });

  it('shows what a changed manifest would do and where it differs, and deploys it', async () => {
    const page = await open(`/flows/flows/${ORDERS_ID}`);
    await page.getByRole('link', { name: 'Edit and deploy…' }).click();
    await page.getByText('There is nothing to deploy').waitFor();
    await expectNoHindrance(page);
    await write(page, JSON.stringify({ ...ORDERS, version: '1.1.0' }, null, 2));
    await page.getByText('The version changed.').waitFor();
    await page.getByRole('checkbox', { name: 'Show changes to revision 1' }).check();
    await page.locator('.cm-deletedChunk', { hasText: '1.0.0' }).waitFor();
    await deployButton(page).click();
    await page.getByText('Orders is deployed as revision 2.').waitFor();
    expect(await flow(ORDERS_ID)).toMatchObject({ revision: 2, version: '1.1.0' });
  });

  it('says what is wrong, leads to the place, and deploys nothing', async () => {
    const page = await open(`/flows/flows/${ORDERS_ID}/deploy`, { failures: [400] });
    await editorOf(page).waitFor();
    const steps = { greet: { type: 'LogMesage', inputs: { message: 'hello' } } };
    await write(page, JSON.stringify({ ...ORDERS, version: '2', steps }, null, 2));
    await page.getByText('is not a known step type').waitFor();
    await page.locator('.cm-lint-marker-error').waitFor();
    await page.getByRole('button', { name: 'steps.greet.type' }).click();
    expect(await page.evaluate('document.activeElement.shadowRoot.getSelection().toString()')).toBe('"LogMesage"');
    expect(await deployButton(page).isDisabled()).toBe(true);
    await write(page, '{ "id": ');
    await page.getByText('This is not JSON').waitFor();
    expect(await flow(ORDERS_ID)).toMatchObject({ revision: 2 });
  });

  it('asks before it breaks what is stored', async () => {
    await fetch(`${service().url}/flows/api/flows/${ORDERS_ID}/trigger`, { method: 'POST' });
    const page = await open(`/flows/flows/${ORDERS_ID}/deploy`, { failures: [409] });
    await editorOf(page).waitFor();
    await write(page, JSON.stringify({ ...ORDERS, version: '3', steps: { other: { type: 'NoOp' } } }, null, 2));
    await page.getByRole('checkbox', { name: 'Deploy it even though it breaks stored history' }).check();
    await deployButton(page).click();
    await page.getByText('Orders is deployed as revision 3.').waitFor();
  });

  it('completes names and values as the type of the step has them', async () => {
    const page = await open('/flows/flows/new', { failures: [400] });
    await editorOf(page).waitFor();
    await write(page, `{ "id": "${OTHER_ID}", "steps": { "say": { "type": "Log" } } }`);
    for (let left = 0; left < '" } } }'.length; left += 1) await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Control+Space');
    await page.getByRole('option', { name: '"LogMessage"' }).click();
    await page.keyboard.insertText(', "inputs": { "" }');
    for (let left = 0; left < '" }'.length; left += 1) await page.keyboard.press('ArrowLeft');
    await page.keyboard.type('mes');
    await page.getByRole('option', { name: 'message' }).waitFor();
    await write(page, `{ "id": "${OTHER_ID}", "steps": { "say": {  } } }`);
    for (let left = 0; left < ' } } }'.length; left += 1) await page.keyboard.press('ArrowLeft');
    await page.keyboard.type('"');
    await page.getByRole('option', { name: 'runAfter' }).waitFor();
    await page.keyboard.type('ty');
    await page.getByRole('option', { name: 'type', exact: true }).click();
    await page.keyboard.press('Control+Space');
    await page.getByRole('option', { name: '"HttpRequest"' }).waitFor();
  });

  it('deploys a new flow from a file', async () => {
    const page = await open('/flows/flows');
    await page.getByRole('link', { name: 'Deploy a manifest…' }).click();
    await editorOf(page).waitFor();
    const other = { ...ORDERS, id: OTHER_ID, name: 'Other' };
    const buffer = Buffer.from(JSON.stringify(other));
    await page.setInputFiles('input[type=file]', { name: 'other.json', mimeType: 'application/json', buffer });
    await page.getByText('becomes a new flow').waitFor();
    await deployButton(page).click();
    await page.getByRole('heading', { level: 1, name: 'Other' }).waitFor();
    expect(await flow(OTHER_ID)).toMatchObject({ name: 'Other', revision: 1 });
  });
});

describeInBrowser('a rehearsal before a deploy', () => {
  const shop = { type: 'webhook', inputs: { webhookSlug: 'shop', webhookEnforcementMode: 'Off' } };
  const big = (total: number) => ({ greet: { statuses: ['Succeeded'], when: `trigger.body.total > ${total}` } });
  const manifest = (version: string, total: number) => ({
    ...ORDERS,
    version,
    triggers: { shop },
    steps: { ...ORDERS.steps, big: { type: 'NoOp', runAfter: big(total) } },
  });
  const { open, service } = useBrowser({ manifests: { 'orders.json': manifest('1.0.0', 50) } });

  it('shows which stored deliveries would go another way, and where', async () => {
    const headers = { 'content-type': 'application/json' };
    const runs = async () => (await fetch(`${service().url}/flows/api/runs`)).json() as Promise<{ status: string }[]>;
    for (const total of [10, 60, 90]) {
      const body = JSON.stringify({ total });
      await fetch(`${service().url}/flows/api/webhook/shop`, { method: 'POST', headers, body });
    }
    await eventually(runs, (found) => found.filter(({ status }) => status !== 'Running').length === 3);
    const page = await open(`/flows/flows/${ORDERS_ID}/deploy`);
    const rehearse = page.getByRole('button', { name: 'Rehearse on stored deliveries' });
    await page.getByText('There is nothing to deploy').waitFor();
    expect(await rehearse.isDisabled()).toBe(true);
    await page.getByRole('textbox', { name: 'Manifest' }).focus();
    await page.keyboard.press('ControlOrMeta+A');
    await page.keyboard.insertText(JSON.stringify(manifest('1.1.0', 80), null, 2));
    await rehearse.click();
    await page.getByText('3 deliveries: 2 as before').waitFor();
    await page.getByText('Succeeded -> Skipped').click();
    await page.locator('.side.after', { hasText: 'Skipped' }).first().waitFor();
    await expectNoHindrance(page);
  });
});
