import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCli } from './cli.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  getJson,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

/* A publisher renames a field, as an operator sees it: the built service, a restart, the API, an alert and `sluice check`. */

const manifest = (message: string) => ({
  id: FLOW_ID,
  name: 'orders',
  version: '1',
  triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'orders' }, searchKeys: { event: 'body.kind' } } },
  steps: { log: { type: 'LogMessage', inputs: { message } } },
});

let workspace: Workspace;
let service: Service;
let first: string | undefined;
const told: string[] = [];
const pager = createServer(async (request, response) => {
  told.push(await text(request));
  response.end();
});
let env: Record<string, string>;
beforeAll(async () => {
  workspace = await createWorkspace();
  pager.listen(0, '127.0.0.1');
  await once(pager, 'listening');
  const url = `http://127.0.0.1:${(pager.address() as AddressInfo).port}/`;
  const targets = { pager: { type: 'slack', url, events: ['attention'], intervalSeconds: 1 } };
  await writeFile(join(workspace.folder, 'alerts.json'), JSON.stringify({ targets }));
  env = { SLUICE_ALERTS: 'alerts.json', SLUICE_EGRESS_ALLOW: '127.0.0.1/32' };
  await workspace.writeManifest('orders.json', manifest(`\${trigger.body.order.id}`));
  const before = await startService(workspace, env);
  await send(before, 30, { kind: 'created', order: { id: 'o1' } });
  await send(before, 4, { kind: 'ping' });
  [first] = await send(before, 5, { kind: 'created', order: { number: 'o1' } });
  await before.stop('SIGTERM');
  // A start looks at what came before.
  service = await startService(workspace, env);
}, 60_000);
afterAll(async () => {
  await service.stop('SIGTERM');
  pager.close();
  await workspace.remove();
});

async function send(running: Service, count: number, body: object): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const answer = await fetch(`${running.url}/flows/api/webhook/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    ids.push(((await answer.json()) as { deliveryId: string }).deliveryId);
  }
  return ids;
}

it('tells of a field that a publisher renamed, with the first delivery that lacked it', async () => {
  const { url } = service;
  const items = await eventually(
    () => getJson<{ kind: string; severity: string; message: string; link: string }[]>(`${url}/flows/api/attention`),
    (all) => all.some(({ kind }) => kind === 'payload_drift'),
    { seconds: 45, because: 'what came is looked at now and then' },
  );
  expect(items.filter(({ kind }) => kind === 'payload_drift')).toEqual([
    {
      flowId: FLOW_ID,
      triggerKey: 'hook',
      kind: 'payload_drift',
      severity: 'warning',
      message: expect.stringMatching(
        `^orders/hook: body.order.id, a string in 30 deliveries before, is missing from 5(, whose runs failed for lack of it,)? since .{17} \\(event created; the first is ${first}\\)$`,
      ),
      link: `/flows/flows/${FLOW_ID}?view=payload&trigger=hook`,
    },
  ]);
  await eventually(
    async () => told,
    (all) => all.some((message) => message.includes('body.order.id') && message.includes(String(first))),
  );
}, 60_000);

it('warns of a path that no delivery had before it is deployed', async () => {
  await workspace.writeManifest('orders.json', manifest(`\${trigger.body.order.nmber}`));
  const warning =
    'steps.log.inputs.message: reads body.order.nmber, which none of the 39 newest deliveries had; did you mean body.order.number?';
  for (const against of [[], ['--against', service.url]]) {
    const { stdout } = await runCli(workspace, ['check', ...against], { env });
    expect(stdout).toContain(warning);
    expect(stdout).toContain('0 errors, 2 warnings');
  }
}, 60_000);
