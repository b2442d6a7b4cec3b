import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, it } from 'vitest';
import { eventually, FLOW_ID, getJson, githubManifest } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, useBrowser } from './browser.ts';
import { deliver } from './deliver.ts';
import { CHARGE_ID, chargeManifest } from './run-flows.ts';

/** Asks for time, so that its circuit stays open until a test closes it, and works after that. */
const receiver = { isWell: false };
const server = createServer((_request, response) => {
  response.writeHead(receiver.isWell ? 200 : 503, receiver.isWell ? {} : { 'retry-after': '600' }).end();
});
await new Promise<void>((resolve) => {
  server.listen(0, '127.0.0.1', resolve);
});
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const OLD_KEY = 'the key before that one, of 32 bytes';

describeInBrowser('the hosts and the keys', () => {
  const { open, service } = useBrowser({
    manifests: {
      'push.json': githubManifest({ inputs: { webhookHmacKeyPrevious: OLD_KEY, webhookEnforcementMode: 'Enforce' } }),
      'charge.json': chargeManifest(origin),
    },
    env: { SLUICE_EGRESS_ALLOW: '127.0.0.1' },
  });
  const charge = async () => {
    const response = await fetch(`${service().url}/flows/api/flows/${CHARGE_ID}/trigger`, { method: 'POST' });
    return ((await response.json()) as { runId: string }).runId;
  };

  it('lists a host that is not called, with its error and the step that waits, and calls it again', async () => {
    await charge();
    const hosts = () => getJson<{ state: string; waitingSteps: number }[]>(`${service().url}/flows/api/hosts`);
    await eventually(hosts, ([host]) => host?.state === 'open');
    const waiting = await charge();
    await eventually(hosts, ([host]) => host?.waitingSteps === 1);
    const page = await open('/flows/hosts');
    const row = page.getByRole('region', { name: 'Hosts', exact: true }).getByRole('row', { name: origin });
    await row.getByText('answered 503').waitFor();
    await row.getByRole('link', { name: '1', exact: true }).waitFor();
    await page.getByText(`${origin} asked for a pause`).waitFor();
    await expectNoHindrance(page);
    receiver.isWell = true;
    await page.getByRole('button', { name: 'Call it now' }).click();
    await page.getByText('The host is called again').waitFor();
    await row.getByText('0', { exact: true }).first().waitFor();
    const runs = () => getJson<{ status: string }>(`${service().url}/flows/api/runs/${waiting}`);
    await eventually(runs, ({ status }) => status === 'Succeeded');
  });

  it('lists both keys of a rotation, what each verified, and who still signs with the previous one', async () => {
    expect(await deliver(service().url)).toBe(200);
    expect(await deliver(service().url, { key: OLD_KEY })).toBe(200);
    const page = await open(`/flows/flows/${FLOW_ID}?view=keys`);
    const rows = page.getByRole('region', { name: 'Keys', exact: true }).getByRole('row');
    await rows.filter({ hasText: 'previous' }).waitFor();
    expect(await rows.count()).toBe(3);
    for (const role of ['current', 'previous']) {
      const row = rows.filter({ hasText: role });
      expect(await row.getByRole('cell', { name: '1', exact: true }).count()).toBe(2);
    }
    await page.getByText('is still used by 127.0.0.1').waitFor();
    await expectNoHindrance(page);
  });
});
