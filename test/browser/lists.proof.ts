import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { eventually, FLOW_ID, GITHUB_SECRET, getJson, githubManifest } from '../e2e/service.ts';
import { temporaryFolder } from '../temporary.ts';
import { describeInBrowser, expectNoHindrance, useBrowser } from './browser.ts';
import { deliver, MANIFESTS } from './deliver.ts';

/** A long name, three search keys, and runs that wait for something with a long name. */
function longManifest() {
  const signalName = 'the-approval-of-a-person-who-is-on-holiday-until-the-end-of-the-month';
  const manifest = githubManifest({
    inputs: { webhookEnforcementMode: 'Enforce' },
    steps: { ask: { type: 'WaitForSignal', inputs: { signalName } } },
  }) as { triggers: { github: object } };
  const searchKeys = { customer: 'body.customer', order: 'body.order', warehouse: 'body.warehouse' };
  return { ...manifest, name: 'orders of the shop', triggers: { github: { ...manifest.triggers.github, searchKeys } } };
}

describeInBrowser('a list', () => {
  const { open, service } = useBrowser({ manifests: { 'push.json': longManifest() } });

  beforeAll(async () => {
    for (const [n, key] of [undefined, 'wrong', undefined].entries()) {
      const keys = { customer: `customer-${n}@a-long-domain.example.com`, order: `SO-${n}`, warehouse: 'Rotterdam' };
      const options = { body: JSON.stringify(keys), headers: { 'x-github-event': 'pull_request_review_comment' } };
      await deliver(service().url, key === undefined ? options : { ...options, key });
    }
  });

  it.each(['/flows/deliveries', '/flows/runs'])('has one line for each row, at 1440 px: %s', async (path) => {
    const page = await open(path);
    await page.locator('tbody tr').nth(1).waitFor();
    const found = await page.evaluate(
      `({ heights: [...new Set([...document.querySelectorAll('tbody tr')].map((row) => row.clientHeight))],
        beyond: [...document.querySelectorAll('.table-scroll')].map((part) => part.scrollWidth - part.clientWidth) })`,
    );
    expect(found).toEqual({ heights: [36], beyond: [0] });
    await expectNoHindrance(page);
  });

  it('has the search keys in one column, those that the manifest names first, and all of them on hovering', async () => {
    const page = await open('/flows/runs');
    await page.getByRole('columnheader', { name: 'Search keys' }).waitFor();
    const cell = page.locator('.search-keys').first();
    expect(await cell.innerText()).toMatch(/^customer customer-2@\S+\s+order SO-2\s+warehouse Rotterdam\s+event /);
    expect(await cell.getAttribute('title')).toMatch(/^customer: customer-2.*\norder: SO-2\nwarehouse: /);
  });

  it.each([
    ['/flows/deliveries', ['Received', 'Outcome', 'Reason', 'Flow']],
    ['/flows/runs', ['Status', 'Flow', 'Why', 'Started']],
  ])('has when and why on a phone, without scrolling: %s', async (path, columns) => {
    const page = await open(path);
    await page.setViewportSize({ width: 390, height: 900 });
    await page.locator('tbody tr').first().waitFor();
    const shown = await page.getByRole('columnheader').filter({ visible: true }).allInnerTexts();
    expect(shown).toEqual(columns);
    const beyond =
      "document.querySelector('.table-scroll').scrollWidth - document.querySelector('.table-scroll').clientWidth";
    expect(await page.evaluate(beyond)).toBe(0);
  });
});

/** Pads to the maximum length, without a place for a line break. */
const longest = (text: string, length: number) => text.padEnd(length, 'abcdefghi_');
const NAME = longest('flow', 120);
const TRIGGER = longest('trigger', 120);
const STEP = longest('step', 64);
const SLUG = longest('push', 128);
const HOST = `http://127.0.0.1:9/${longest('path', 300)}`;

/** Every kind of step and trigger that a page shows, with names of maximum length. */
function longestManifest() {
  const manifest = githubManifest({
    inputs: { webhookEnforcementMode: 'Enforce', webhookSlug: SLUG, webhookHmacKey: 'env:GITHUB_KEY' },
    steps: {
      [STEP]: { type: 'Transform', inputs: { value: `\${trigger.body}` } },
      [longest('wait', 64)]: {
        type: 'WaitForSignal',
        inputs: { signalName: longest('signal', 100), choices: [longest('yes', 60), 'no'] },
        runAfter: {
          [STEP]: { statuses: ['Succeeded'], when: `!(trigger.body.kind in ["call", "${longest('x', 99)}"])` },
        },
      },
      [longest('call', 64)]: {
        type: 'HttpRequest',
        inputs: { url: HOST },
        runAfter: { [STEP]: { statuses: ['Succeeded'], when: 'trigger.body.kind == "call"' } },
      },
    },
  }) as { triggers: { github: object } };
  const searchKeys = { [longest('key', 32)]: 'body.number', kind: 'body.kind' };
  const cron = { type: 'cron', inputs: { cronExpression: '0 2 * * *', timeZone: 'America/Argentina/ComodRivadavia' } };
  return {
    ...manifest,
    name: NAME,
    version: longest('1.0.0-', 60),
    triggers: {
      [TRIGGER]: { ...manifest.triggers.github, searchKeys },
      [longest('nightly', 120)]: cron,
      [longest('byHand', 120)]: { type: 'manual' },
    },
  };
}

describeInBrowser('every page, with names as long as they may be', () => {
  const { open, service } = useBrowser({
    manifests: { 'longest.json': longestManifest() },
    env: {
      GITHUB_KEY: GITHUB_SECRET,
      SLUICE_EGRESS_ALLOW: '127.0.0.1',
      SLUICE_SERVICE_NAME: longest('service', 40),
    },
  });
  const idsOf = async (path: string) =>
    (await getJson<{ id: string }[]>(`${service().url}/flows/api/${path}`)).map(({ id }) => id);
  const places: Record<string, string> = {};

  beforeAll(async () => {
    const kinds = ['call', longest('kind', 100), longest('other', 300)];
    for (const kind of kinds)
      await deliver(service().url, { slug: SLUG, body: JSON.stringify({ kind, number: kind }) });
    await deliver(service().url, { slug: SLUG, key: 'wrong', headers: { 'x-github-event': longest('event', 300) } });
    const runs = await eventually(
      () => idsOf('runs?status=Failed'),
      (ids) => ids.length === 1,
    );
    const [waiting] = await idsOf('runs?status=Running');
    const [refused] = await idsOf('webhooks/recent?rejectedOnly=true');
    const [accepted] = await idsOf('webhooks/recent?acceptedOnly=true');
    Object.assign(places, { FAILED: runs[0], WAITING: waiting, REFUSED: refused, ACCEPTED: accepted });
  });

  it.each([
    '',
    '/deliveries',
    '/deliveries/REFUSED',
    '/deliveries/ACCEPTED',
    '/deliveries/readiness',
    '/runs',
    '/runs?group=cause',
    '/runs/FAILED',
    '/runs/WAITING',
    '/runs/WAITING?view=gantt',
    '/runs/WAITING?view=timeline',
    '/runs/WAITING?view=input',
    '/flows',
    '/flows/new',
    `/flows/${FLOW_ID}`,
    ...['manifest', 'revisions', 'readiness', 'payload', 'keys'].map((view) => `/flows/${FLOW_ID}?view=${view}`),
    `/flows/${FLOW_ID}/deploy`,
    '/schedules',
    '/hosts',
    '/activity',
    '/publishers',
    '/publishers/github',
  ])('fits a phone and a desk, and can be touched: /flows%s', async (path) => {
    const page = await open(`/flows${path.replace(/[A-Z]{5,}/, (name) => places[name] ?? name)}`);
    await page.locator('main h1').waitFor();
    await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
    await expectNoHindrance(page);
  });
});

const folder = temporaryFolder('tokens');
const READER = 'reader-4f1c9d7ab2e8aaaa';
const OPERATOR = 'operator-4f1c9d7ab2e8aaaa';

describeInBrowser('who may not change a thing', () => {
  writeFileSync(
    join(folder, 'tokens.json'),
    JSON.stringify([
      { name: 'reader', token: READER, scopes: ['read'] },
      { name: 'operator', token: OPERATOR, scopes: ['read', 'operate'] },
    ]),
  );
  const { open, service } = useBrowser({
    manifests: MANIFESTS,
    env: { SLUICE_TOKENS: join(folder, 'tokens.json') },
  });
  beforeAll(async () => void (await deliver(service().url)));

  const CHANGING =
    /Redeliver|all…|again|Cancel|Deploy|deploy|Drain|Disable|Delete|Start a run|Pause|Run now|Edit|Restore/;

  it.each([
    ['reader', READER, []],
    ['operator', OPERATOR, ['Deploy a manifest…', 'Delete…', 'Edit and deploy…']],
  ])('is offered no button that the scopes of %s forbid', async (_, token, missing) => {
    const page = await open('/flows/runs', { failures: [401] });
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
    const offered: string[] = [];
    for (const path of ['deliveries', 'runs', 'flows', `flows/${FLOW_ID}`, 'schedules']) {
      await page.goto(`/flows/${path}`);
      await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
      await page.locator('main h1').waitFor();
      await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
      offered.push(...(await page.locator('main button, main a.button').allInnerTexts()));
    }
    const changing = offered.map((text) => text.trim()).filter((text) => CHANGING.test(text));
    if (missing.length === 0) expect(changing).toEqual([]);
    else {
      expect(changing).toContain('Redeliver…');
      for (const text of missing) expect(changing).not.toContain(text);
    }
    await page.getByRole('button', { name: /Log out/ }).click();
    await page.getByLabel('Token').waitFor();
  });
});

describeInBrowser('the documentation of the API', () => {
  const { open } = useBrowser({ manifests: MANIFESTS });

  it('has no accessibility violation', async () => {
    const page = await open('/flows/api/docs');
    await page.getByRole('heading', { level: 1 }).waitFor();
    await expectNoHindrance(page);
  });
});
