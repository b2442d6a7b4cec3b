import './installed.ts';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

export { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

/** The script of axe, for a page to run. */
export const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
