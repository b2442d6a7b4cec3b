// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { formatIssue } from '../../src/manifest/issues.ts';
import { parseManifest } from '../../src/manifest/load.ts';

const handlers = handlerTable(stepTypes().handlers);
const rules = { handlers, readSecret: () => ({ error: 'is not set' }), strict: false, checks: [] };

function parse(steps: object) {
  const manifest = { id: '0b7c9d10-0000-4000-8000-000000000001', version: '1', steps };
  const { flow, issues } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
  return { flow, issues: issues.map(formatIssue) };
}

const each = (change: object = {}) => ({
  before: { type: 'NoOp' },
  each: {
    Type: 'ForEach',
    forEach: '${trigger.body.items}',
    RunAfter: { before: ['Succeeded'] },
    steps: {
      one: { type: 'Transform', inputs: { value: '${loop.item}${steps.before.output}' } },
      two: { Type: 'NoOp', RunAfter: { one: { When: 'loop.index > 0' } } },
    },
    ...change,
  },
});

describe('a loop in a manifest', () => {
  it('is read with its children, whose structural keys may be spelled in any case', () => {
    const { flow, issues } = parse(each());
    expect(issues).toEqual([]);
    expect(flow?.manifest.steps.each?.steps?.two?.runAfter).toEqual({
      one: { statuses: ['Succeeded'], when: 'loop.index > 0' },
    });
  });

  it('yields a warning about a child whose key hides a step outside', () => {
    const { flow, issues } = parse(each({ steps: { before: { type: 'NoOp' }, other: { type: 'NoOp' } } }));
    expect(flow).toBeDefined();
    expect(issues).toEqual([
      expect.stringContaining('steps.each.steps.before: hides the step "before" outside the loop'),
    ]);
  });

  it.each([
    ['no items', { forEach: undefined }, 'steps.each.forEach: is missing'],
    ['items that are not an array', { forEach: 3 }, 'steps.each.forEach: is neither an array nor an expression'],
    ['items that do not parse', { forEach: '${trigger.}' }, 'steps.each.forEach: expression'],
    ['no children', { steps: {} }, 'steps.each.steps: is missing or empty'],
    ['a retry', { retry: { maxAttempts: 2 } }, 'steps.each.retry: is not accepted on a loop'],
    [
      'a child of an unknown type',
      { steps: { a: { type: 'Nope' } } },
      'steps.each.steps.a.type: is not a known step type',
    ],
    ['a child key with a dot', { steps: { 'a.b': { type: 'NoOp' } } }, 'steps.each.steps["a.b"]: is not a step key'],
    [
      'a child after a step outside',
      { steps: { a: { type: 'NoOp', runAfter: { before: ['Succeeded'] } } } },
      'steps.each.steps.a.runAfter.before: no step has this key',
    ],
    [
      'children in a circle',
      { steps: { a: { type: 'NoOp', runAfter: { b: ['Failed'] } }, b: { type: 'NoOp', runAfter: { a: ['Failed'] } } } },
      'closes a cycle: a → b → a',
    ],
    [
      'a child that reads no step',
      { steps: { a: { type: 'Transform', inputs: { value: '${steps.nope.output}' } } } },
      'steps.each.steps.a.inputs.value: reads steps.nope, but no step has this key',
    ],
  ])('with %s is refused', (_what, change, issue) => {
    const { flow, issues } = parse(each(change));
    expect(flow).toBeUndefined();
    expect(issues.join('\n')).toContain(issue);
  });

  it('keeps the secrets of its children out of the snapshot', () => {
    const headers = { authorization: 'Bearer canary-of-a-child' };
    const call = { type: 'HttpRequest', inputs: { url: 'https://example.com', headers } };
    const nested = { type: 'ForEach', forEach: [1], steps: { call } };
    const { flow } = parse(each({ steps: { call, nested } }));
    expect(JSON.stringify(flow?.manifest)).toContain('canary');
    expect(JSON.stringify(flow?.snapshot)).not.toContain('canary');
  });
});
