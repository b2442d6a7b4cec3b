import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { references } from '../../scripts/docs.ts';
import { describeSettings } from '../../src/config/settings-schema.ts';
import { WEBHOOK_FIELDS } from '../../src/manifest/webhook-fields.ts';
import { PAGES, ROOT } from './pages.ts';

describe('the references made from schemas and data', () => {
  it.each(Object.entries(references()))('%s is what they give; `npm run docs` writes it', (path, text) => {
    expect(readFileSync(join(ROOT, path), 'utf8')).toBe(text);
  });

  it('name every setting once', () => {
    const { 'docs/settings.md': text = '' } = references();
    for (const { variable } of describeSettings()) expect(text.split(`| \`${variable}\``)).toHaveLength(2);
  });
});

/** Fields of publishers' own bodies. */
const OTHERS = ['webhookEvent', 'webhookTimestamp'];

describe.each(PAGES)('$name', ({ text }) => {
  it('names settings that there are', () => {
    const known = ['SLUICE_CONFIG', ...describeSettings().map(({ variable }) => variable)];
    // A name with an underscore at its end means several, such as `SLUICE_DASHBOARD_*`.
    const named = [...new Set(text.match(/\bSLUICE_[A-Z0-9_]+/g) ?? [])].filter((name) => !name.endsWith('_'));
    // Names that the operator chooses.
    const isOwn = (name: string) => name.startsWith('SLUICE_VAR_');
    expect(named.filter((name) => !known.includes(name) && !isOwn(name))).toEqual([]);
  });

  it('names fields of webhook triggers that there are', () => {
    const own = text.replace(/https:\/\/[^\s)]+/g, '');
    const named = [...new Set(own.match(/\bwebhook[A-Z]\w+/g) ?? [])].filter((name) => !OTHERS.includes(name));
    expect(named.filter((name) => !WEBHOOK_FIELDS.all.includes(name))).toEqual([]);
  });
});
