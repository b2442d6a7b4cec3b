import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { describeInBrowser, expectNoHindrance, hindrances, useBrowser } from './browser.ts';
import {
  APPROVAL_ID,
  BATCH_ID,
  CHARGE_ID,
  chargeManifest,
  QUEUE_ID,
  queueManifest,
  RUN_MANIFESTS,
  runStatus,
  startRun,
} from './run-flows.ts';

/** Answers 500 until a test mends it. */
let shop: Server;
let isMended = false;
/** Answers of `/held` that wait until a test releases them. */
let held: (() => void)[] | undefined = [];
const shopPort = await new Promise<number>((listening) => {
  shop = createServer((request, response) => {
    if (request.url === '/held') {
      const answer = () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      if (held === undefined) answer();
      else held.push(answer);
      return;
    }
    response.writeHead(isMended ? 200 : 500, { 'content-type': 'application/json' }).end('{}');
  }).listen(0, '127.0.0.1', () => listening((shop.address() as AddressInfo).port));
});
afterAll(() => {
  shop.close();
});

describeInBrowser('runs', () => {
  const { open, service } = useBrowser({
    manifests: {
      ...RUN_MANIFESTS,
      'charge.json': chargeManifest(`http://127.0.0.1:${shopPort}/charge`),
      'queue.json': queueManifest(`http://127.0.0.1:${shopPort}/held`),
    },
    env: { SLUICE_EGRESS_ALLOW: '127.0.0.1' },
  });
  let failedRun: string;
  beforeAll(async () => {
    failedRun = await startRun(service().url, CHARGE_ID);
    await eventually(
      () => runStatus(service().url, failedRun),
      (status) => status === 'Failed',
    );
  });

  it('say what to do where there is none, and are filtered by the address', async () => {
    const page = await open('/flows/runs?status=Cancelled');
    await page.getByText('No runs match').waitFor();
    await page.getByRole('link', { name: 'Clear the filters' }).click();
    await page.getByRole('link', { name: 'Failed' }).first().waitFor();
    await page.getByRole('combobox', { name: 'Status' }).selectOption('Failed');
    expect(new URL(page.url()).search).toBe('?status=Failed');
    await page.getByRole('link', { name: 'Failed' }).first().click();
    await page.getByRole('dialog', { name: 'Run' }).getByRole('heading', { name: 'Charge', exact: true }).waitFor();
  });

  it('appear in the list as they start', async () => {
    const page = await open(`/flows/runs?flowId=${APPROVAL_ID}`);
    await page.getByText('No runs match').waitFor();
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    await startRun(service().url, APPROVAL_ID);
    await page.getByRole('link', { name: 'Waiting' }).waitFor();
    await page.getByRole('cell', { name: 'decision waits for the signal “decision”' }).waitFor();
  });

  it('are found by what they wait for, and those that failed say where and why', async () => {
    const page = await open('/flows/runs');
    await page.getByRole('combobox', { name: 'Waiting for' }).selectOption('For a signal');
    await page.waitForURL('**/flows/runs?waiting=signal');
    await page.getByRole('row', { name: /Charge/ }).waitFor({ state: 'detached' });
    await page
      .getByRole('row', { name: /Waiting Approval decision waits/ })
      .first()
      .waitFor();
    await page.goto(`${service().url}/flows/runs?status=Failed&last=1h`);
    await page
      .getByRole('cell', { name: /^500 Internal Server Error · POST \/charge \(charge\)/ })
      .first()
      .waitFor();
    await expectNoHindrance(page);
  });

  it('that failed open the failed step with request and response, once closed no more', async () => {
    const page = await open(`/flows/runs/${failedRun}`);
    const panel = page.getByRole('complementary', { name: 'Step charge' });
    await panel.getByText(`POST http://127.0.0.1:${shopPort}/charge`).waitFor();
    await panel.getByRole('heading', { name: 'Response 500' }).waitFor();
    await panel.getByText('Limit of an attempt').waitFor();
    await panel.getByRole('button', { name: 'Close' }).click();
    await panel.waitFor({ state: 'detached' });
    // People at night compare it with a log.
    expect(await page.locator('dt:text-is("Started") + dd .clock').first().textContent()).toMatch(/\d\d:\d\d/);
  });

  it('that failed are counted by cause, and each cause is a filter of list, total and chart', async () => {
    const page = await open('/flows/runs');
    await page.getByRole('button', { name: 'Failures by cause' }).click();
    await page.waitForURL('**/flows/runs?group=cause');
    const error = /^500 Internal Server Error · POST \/charge$/;
    await page.getByRole('link', { name: error }).waitFor();
    await expectNoHindrance(page);
    await page.getByRole('link', { name: error }).click();
    await page.waitForURL(/step=charge/);
    await page
      .getByRole('cell', { name: /\(charge\)$/ })
      .first()
      .waitFor();
    await page.getByRole('img', { name: /: 0 succeeded, [1-9]\d* failed, 0 in flight, 0 others/ }).waitFor();
    await expectNoHindrance(page);
    for (const part of ['step', 'code', 'host', 'error']) {
      await page.getByRole('button', { name: `Any ${part}` }).click();
    }
    await page.getByRole('list', { name: 'Failed by' }).waitFor({ state: 'detached' });
  });

  it('are narrowed to a bar of the chart, and the way back is the longer span', async () => {
    const page = await open('/flows/runs?last=15m');
    const plot = page.getByRole('img', { name: /^Runs over the chosen time: / });
    await plot.waitFor();
    const bars = await plot.locator('.u-over').boundingBox();
    if (bars === null) throw new Error('nothing is drawn');
    // The last bar but one: the last minute has only just begun.
    await page.mouse.click(bars.x + bars.width * (14.5 / 16), bars.y + bars.height / 2);
    await page.waitForURL(/since=.*until=/);
    const span = new URL(page.url()).searchParams;
    expect(Date.parse(span.get('until') ?? '') - Date.parse(span.get('since') ?? '')).toBe(60_000);
    expect(span.get('last')).toBeNull();
    await page.goBack();
    await page.waitForURL('**/flows/runs?last=15m');
    await plot.waitFor();
    await page.mouse.move(bars.x + bars.width * 0.2, bars.y + 10);
    await page.mouse.down();
    await page.mouse.move(bars.x + bars.width * 0.6, bars.y + 10, { steps: 5 });
    await page.mouse.up();
    await page.waitForURL(/since=.*until=/);
    const dragged = new URL(page.url()).searchParams;
    const minutes = (Date.parse(dragged.get('until') ?? '') - Date.parse(dragged.get('since') ?? '')) / 60_000;
    expect(minutes).toBeGreaterThan(5);
    expect(minutes).toBeLessThan(9);
  });

  it('that wait are given their signal, and are watched to the end', async () => {
    const runId = await startRun(service().url, APPROVAL_ID);
    const page = await open(`/flows/runs/${runId}`);
    await page.getByText('waits for the signal “decision”').waitFor();
    await page.locator('.actions').getByRole('button', { name: 'Send signal…' }).click();
    const anySignal = page.getByRole('dialog', { name: 'Send a signal' });
    expect(await anySignal.getByRole('combobox').inputValue()).toBe('decision');
    await anySignal.getByRole('button', { name: 'Cancel' }).click();
    await page.locator('.notice').getByRole('button', { name: 'Send signal…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Send the signal “decision”' });
    const body = dialog.getByLabel(/^Body, as JSON/);
    expect(JSON.parse(await body.inputValue())).toEqual({ approved: true });
    await body.fill('{ approved }');
    expect(await dialog.getByRole('button', { name: 'Send signal' }).isDisabled()).toBe(true);
    expect(await hindrances(page)).toEqual([]);
    await body.fill('{ "approved": true }');
    await dialog.getByRole('button', { name: 'Send signal' }).click();
    await page.getByText('“decision” received the signal').waitFor();
    await page.locator('.title-line').getByText('Succeeded').waitFor();
    await page.getByRole('button', { name: /^refuse/ }).click();
    await page.getByText('Its condition after “decision” is false.').waitFor();
    await page.getByText('steps.decision.output.approved', { exact: true }).waitFor();
  });

  it('with a failed step go on once its cause is mended and the step retried', async () => {
    const page = await open(`/flows/runs/${failedRun}`);
    await page.getByText('failed after 1 attempt').waitFor();
    await page.getByRole('button', { name: /^ship/ }).click();
    await page.getByText('“charge” ended as Failed').waitFor();
    isMended = true;
    await page.getByRole('button', { name: 'Show charge' }).click();
    await page.getByRole('complementary').getByRole('button', { name: 'Retry step' }).click();
    await page.locator('.title-line').getByText('Succeeded').waitFor();
    await page.getByRole('complementary').getByText('2 attempts').waitFor();
  });

  it('are cancelled with a reason, which is kept', async () => {
    const runId = await startRun(service().url, APPROVAL_ID);
    const page = await open(`/flows/runs/${runId}`);
    await page.getByRole('button', { name: 'Cancel run…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Cancel this run?' });
    await dialog.getByRole('textbox').fill('it was a test');
    await dialog.getByRole('button', { name: 'Cancel run' }).click();
    await page.getByText('The run is cancelled').waitFor();
    await page.getByText(': it was a test').waitFor();
    await page.locator('.title-line').getByText('Cancelled').waitFor();
  });

  it('are run again as a new run that says where it comes from', async () => {
    const page = await open(`/flows/runs/${failedRun}`);
    await page.getByRole('button', { name: 'Run again…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Run again' }).click();
    await page.waitForURL((url) => url.pathname.startsWith('/flows/runs/') && !url.pathname.endsWith(failedRun));
    await page.getByText('Re-run of').waitFor();
  });

  it('keep the view and the step in the address', async () => {
    const page = await open(`/flows/runs/${failedRun}?view=timeline&step=charge`);
    await page.getByRole('complementary', { name: 'Step charge' }).waitFor();
    await page.getByText('Run started').waitFor();
    await page.getByRole('button', { name: 'Gantt' }).click();
    expect(new URL(page.url()).search).toBe('?view=gantt&step=charge');
    await page.locator('.gantt-bar.attempt').first().waitFor();
    await page.getByRole('complementary').getByRole('button', { name: 'Close' }).click();
    expect(new URL(page.url()).search).toBe('?view=gantt');
    await page.getByRole('button', { name: 'Input' }).click();
    await page.getByText('{}').waitFor();
  });

  it('show in the Gantt for how long a step waited for a slot', async () => {
    const runId = await startRun(service().url, QUEUE_ID);
    const page = await open(`/flows/runs/${runId}?view=gantt`);
    await page.locator('.gantt-bar.slot.open[title^="Waits for a slot"]').waitFor();
    await page.locator('.gantt-legend', { hasText: 'waits for a slot' }).waitFor();
    for (const answer of held ?? []) answer();
    held = undefined;
    await page.locator('.title-line').getByText('Succeeded').waitFor();
    await page.locator('.gantt-bar.slot:not(.open)[title^="Waited for a slot"]').waitFor();
    await page.locator('.gantt-bar.slot[title]').waitFor({ state: 'attached' });
    await page.getByRole('button', { name: /^second/ }).click();
    await page
      .getByRole('complementary')
      .getByText(/waited for a slot/)
      .waitFor();
    await expectNoHindrance(page);
  });

  it('show their graph to keyboards: arrows walk, Enter selects', async () => {
    const page = await open(`/flows/runs/${failedRun}`);
    await page.getByRole('button', { name: /^charge/ }).focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await page.getByRole('complementary', { name: 'Step ship' }).waitFor();
    expect(new URL(page.url()).search).toBe('?step=ship');
  });

  it('with loops of many iterations lead to the one that failed', async () => {
    const rows = Array.from({ length: 400 }, (_, index) => (index === 390 ? 0 : index + 1));
    const runId = await startRun(service().url, BATCH_ID, { rows });
    const page = await open(`/flows/runs/${runId}`);
    await page.locator('.title-line').getByText('Succeeded').waitFor();
    await page.getByRole('button', { name: /^parse/ }).click();
    await page.getByRole('complementary', { name: 'Step rows.390.parse' }).waitFor();
    await page.getByRole('button', { name: 'Previous iteration' }).click();
    await page.getByRole('complementary', { name: 'Step rows.389.parse' }).waitFor();
    await page.getByRole('button', { name: 'Gantt' }).click();
    await page.getByRole('button', { name: 'iterations' }).click();
    await page.getByText('1–20 of').waitFor();
    await page.getByRole('checkbox', { name: 'Only failed' }).check();
    await page.getByText('Iteration 390').waitFor();
    await page.getByRole('button', { name: 'Timeline' }).click();
    await page.getByRole('button', { name: 'Show earlier events' }).waitFor();
  });

  it('says so if the id is unknown', async () => {
    const page = await open('/flows/runs/00000000-0000-4000-8000-000000000000', { failures: [404] });
    await page.getByText('There is no run with the id').waitFor();
  });

  it.each(['', '?view=gantt&step=charge', '?view=timeline', '?view=input'])(
    'has no accessibility violation in one run %s',
    async (query) => {
      const page = await open(`/flows/runs/${failedRun}${query}`);
      await page.locator('.panel').first().waitFor();
      await page.locator('.skeleton').first().waitFor({ state: 'detached' });
      await expectNoHindrance(page);
    },
  );

  it('has no accessibility violation in the list', async () => {
    const page = await open('/flows/runs');
    await page.getByRole('link', { name: 'Succeeded' }).first().waitFor();
    await expectNoHindrance(page);
  });
});
