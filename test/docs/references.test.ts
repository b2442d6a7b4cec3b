import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { references } from '../../scripts/docs.ts';
import { describeSettings } from '../../src/config/settings-schema.ts';

const ROOT = resolve(import.meta.dirname, '../..');

describe('the references made from schemas', () => {
  it.each(Object.entries(references()))('%s is what the schemas give; `npm run docs` writes it', (path, text) => {
    expect(readFileSync(join(ROOT, path), 'utf8')).toBe(text);
  });

  it('name every setting once', () => {
    const { 'docs/settings.md': text = '' } = references();
    for (const { variable } of describeSettings()) expect(text.split(`| \`${variable}\``)).toHaveLength(2);
  });
});
