import { existsSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import { createWorkspace, type Service, startService, type Workspace } from '../e2e/service.ts';
import { axeSource, type Browser, type BrowserContext, chromium, type Page } from '../oracles/chromium.ts';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
// One that is named has to be there: a run that counts on it must not skip these tests for a wrong path.
const executablePath = process.env.CHROMIUM_PATH ?? PLACES.find((path) => existsSync(path));

/** A suite that needs a Chromium: skipped, and its name says why, where there is none. */
export function describeInBrowser(name: string, suite: () => void): void {
  const isMissing = executablePath === undefined;
  describe.skipIf(isMissing)(isMissing ? `${name} (no Chromium here; name one in CHROMIUM_PATH)` : name, suite);
}

/** Quiet, and as alone as it can be: the page under test is all that it may talk to. */
const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: executablePath ?? '', args: ARGUMENTS });

/** A page that is slow on a busy machine has done nothing wrong: what waits for it ends long before the test does. */
const PATIENCE_MS = 120_000;

interface OpenOptions {
  /** Statuses of answers that the test asks for on purpose; the browser's console tells of each. */
  readonly failures?: readonly number[];
}

export interface BrowserSuite {
  readonly service: () => Service;
  readonly workspace: () => Workspace;
  /** A page in light colours, 1440 pixels wide, at a path of the service. */
  open(path: string, options?: OpenOptions): Promise<Page>;
}

interface SuiteOptions {
  /** By file name. */
  readonly manifests: Readonly<Record<string, object>>;
  readonly env?: Readonly<Record<string, string>>;
  /** The login that the browser knows. */
  readonly credentials?: { readonly username: string; readonly password: string };
}

/**
 * Starts one service and one browser for the suite around it. A test fails for what it asserts, and for any error on a
 * page, in the console or thrown, and any request to another host.
 */
export function useBrowser({ manifests, env = {}, credentials }: SuiteOptions): BrowserSuite {
  let workspace: Workspace;
  let service: Service;
  let browser: Browser;
  let context: BrowserContext;
  let problems: string[] = [];

  beforeAll(async () => {
    workspace = await createWorkspace();
    for (const [name, manifest] of Object.entries(manifests)) await workspace.writeManifest(name, manifest);
    [service, browser] = await Promise.all([
      startService(workspace, { SLUICE_LOG_LEVEL: 'silent', ...env }),
      launchBrowser(),
    ]);
    // One for all tests: what they have in common, the files of the page, is fetched once.
    context = await browser.newContext({
      baseURL: service.url,
      ...(credentials === undefined ? {} : { httpCredentials: credentials }),
    });
    context.setDefaultTimeout(PATIENCE_MS);
  }, 60_000);
  afterEach(async () => {
    for (const page of context.pages()) await page.close();
    const found = problems;
    problems = [];
    expect(found).toEqual([]);
  });
  afterAll(async () => {
    await browser?.close();
    await service?.stop('SIGTERM');
  });

  return {
    service: () => service,
    workspace: () => workspace,
    async open(path, { failures = [] } = {}) {
      const page = await context.newPage();
      await page.emulateMedia({ colorScheme: 'light' });
      await page.setViewportSize({ width: 1440, height: 900 });
      watch(page, { url: service.url, failures, report: (problem) => problems.push(problem) });
      await page.goto(path);
      return page;
    },
  };
}

interface Watch {
  readonly url: string;
  readonly failures: readonly number[];
  readonly report: (problem: string) => void;
}

function watch(page: Page, { url, failures, report }: Watch): void {
  page.on('pageerror', (error) => report(`thrown: ${error.stack}`));
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    const [, status] = /Failed to load resource: .* status of (\d+)/.exec(message.text()) ?? [];
    if (!failures.includes(Number(status))) report(`console: ${message.text()} ${message.location().url}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:')) report(`asked ${request.url()}`);
  });
}

/** What axe finds to be a serious or critical hindrance on a page as it stands, or landmarks of one name, one line each. */
export async function hindrances(page: Page): Promise<string[]> {
  // Handed over as text: the page's own policy lets no script in that is not its own.
  await page.evaluate(axeSource);
  const found: { id: string; impact: string | null; help: string; nodes: { html: string }[] }[] = await page.evaluate(
    // What a finger must hit is a rule that axe leaves off by itself.
    'axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }).then(({ violations }) => violations)',
  );
  return found
    .filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || id === 'landmark-unique')
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`);
}

/** What is wider than the screen: the page itself, or a control on it. */
const BEYOND = `[
  ...(document.documentElement.scrollWidth > window.innerWidth ? ['the page: ' + document.documentElement.scrollWidth] : []),
  ...[...document.querySelectorAll('.table-scroll')]
    .filter((table) => table.scrollWidth > table.clientWidth)
    .map((table) => table.ariaLabel + ': ' + table.scrollWidth),
  ...[...document.querySelectorAll('select, input, button, textarea')]
    .filter((control) => control.closest('.table-scroll, .graph') === null && control.getBoundingClientRect().right > window.innerWidth)
    .map((control) => control.outerHTML.slice(0, 120)),
]`;

/** Asserts that a page has no accessibility violation: in light and wide, and in dark on a phone, where it must not scroll sideways. */
export async function expectNoHindrance(page: Page): Promise<void> {
  for (const { colorScheme, width } of [
    { colorScheme: 'light', width: 1440 } as const,
    { colorScheme: 'dark', width: 390 } as const,
  ]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    expect.soft({ colorScheme, width, found: await hindrances(page) }).toEqual({ colorScheme, width, found: [] });
    expect.soft(await page.evaluate(BEYOND)).toEqual([]);
  }
}
