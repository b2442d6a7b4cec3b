import { existsSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import { createWorkspace, type Service, startService, type Workspace } from '../e2e/service.ts';
import { axeSource, type Browser, type BrowserContext, chromium, type Page } from '../oracles/chromium.ts';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
// A named browser must exist: a run that relies on it must not skip these tests because of a wrong path.
const executablePath = process.env.CHROMIUM_PATH ?? PLACES.find((path) => existsSync(path));

/** A suite that needs Chromium. Without one it is skipped, and its name says why. */
export function describeInBrowser(name: string, suite: () => void): void {
  const isMissing = executablePath === undefined;
  describe.skipIf(isMissing)(isMissing ? `${name} (no Chromium here; name one in CHROMIUM_PATH)` : name, suite);
}

/** Quiet and isolated as far as possible: the browser may contact only the page under test. */
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

/** A slow page on a busy machine is not a failure. Waits end long before the test's own limit. */
const PATIENCE_MS = 120_000;

interface OpenOptions {
  /** Error statuses that the test causes on purpose; the browser's console reports each. */
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
  /** The login that the browser uses. */
  readonly credentials?: { readonly username: string; readonly password: string };
}

/**
 * Starts one service and one browser for the surrounding suite. Tests also fail for any error on a page, in the console
 * or thrown, and for any request to another host.
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
    // One for all tests, so that the page's files are fetched only once.
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

/** Serious and critical problems that axe finds on the current page, and landmarks with equal names; one line each. */
export async function hindrances(page: Page): Promise<string[]> {
  // Passed as text: the page's policy allows only its own scripts.
  await page.evaluate(axeSource);
  const found: { id: string; impact: string | null; help: string; nodes: { html: string }[] }[] = await page.evaluate(
    // axe does not check the size of touch targets by default.
    'axe.run(document, { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }).then(({ violations }) => violations)',
  );
  return found
    .filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || id === 'landmark-unique')
    .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`);
}

/** Whatever is wider than the screen: the page itself, or a control on it. */
const BEYOND = `[
  ...(document.documentElement.scrollWidth > window.innerWidth ? ['the page: ' + document.documentElement.scrollWidth] : []),
  ...[...document.querySelectorAll('.table-scroll')]
    .filter((table) => table.scrollWidth > table.clientWidth)
    .map((table) => table.ariaLabel + ': ' + table.scrollWidth),
  ...[...document.querySelectorAll('select, input, button, textarea')]
    .filter((control) => control.closest('.table-scroll, .graph') === null && control.getBoundingClientRect().right > window.innerWidth)
    .map((control) => control.outerHTML.slice(0, 120)),
]`;

/** Asserts that a page has no accessibility violation, wide and light, and dark on a phone without sideways scroll. */
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
