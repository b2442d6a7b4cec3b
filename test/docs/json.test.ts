import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { parseManifest } from '../../src/manifest/load.ts';
import { PAGES } from './pages.ts';

const handlers = handlerTable(stepTypes().handlers);
const rules = { handlers, readSecret: () => ({ value: 'a secret of some length' }), strict: false, checks: [] };

/** A block of JSON, or members of an object without its braces. */
function parse(block: string): unknown {
  return JSON.parse(/^[[{]/.test(block) ? block : `{${block}}`);
}

const isStep = (value: unknown) => typeof value === 'object' && value !== null && handlers.has(Object(value).type);

/** The manifest in the block, or made from its steps; undefined for other JSON, which only has to parse. */
function manifestOf(json: unknown): object | undefined {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return undefined;
  if ('triggers' in json) return json;
  if (!Object.values(json).every(isStep)) return undefined;
  return { id: '2f1d7a52-1c55-4ad5-8f2e-6d6d0b4f5a11', version: '1', steps: json };
}

describe('the JSON', () => {
  const blocks = PAGES.flatMap(({ name, text }) =>
    [...text.matchAll(/^```json\n([\s\S]*?)^```/gm)].map(([, block = ''], at) => ({ name, at, block })),
  );

  it.each(blocks)('of $name (block $at) parses, and loads if it is a manifest or steps', ({ block }) => {
    const manifest = manifestOf(parse(block));
    if (manifest === undefined) return;
    const { issues } = parseManifest(JSON.stringify(manifest), 'page.json', rules);
    expect(issues.filter(({ severity }) => severity === 'error')).toEqual([]);
  });

  it('is mostly manifests', () => {
    expect(blocks.filter(({ block }) => manifestOf(parse(block)) !== undefined).length).toBeGreaterThan(23);
  });
});
