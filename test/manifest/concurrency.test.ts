import { describe, expect, it } from 'vitest';
import { stepTypes } from '../../src/config/steps.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { formatIssue } from '../../src/manifest/issues.ts';
import { parseManifest } from '../../src/manifest/load.ts';

const handlers = handlerTable(stepTypes().handlers);
const rules = { handlers, readSecret: () => ({ error: 'is not set' }), strict: false, checks: [] };
const noOp = { type: 'NoOp' };

function parse(change: object) {
  const manifest = { id: '0b7c9d10-0000-4000-8000-000000000002', version: '1', steps: { a: noOp }, ...change };
  const { flow, issues } = parseManifest(JSON.stringify(manifest), 'flow.json', rules);
  return { manifest: flow?.manifest, issues: issues.map(formatIssue) };
}

const loop = (child: object, change: object = {}) => ({
  steps: { each: { type: 'ForEach', forEach: [1], steps: { a: { ...noOp, ...child } }, ...change } },
});

describe('a concurrency in a manifest', () => {
  it.each([1, 2, 10_000])('may be %i, on the flow, a step and a child of a loop', (concurrency) => {
    expect(parse({ concurrency })).toMatchObject({ issues: [], manifest: { concurrency } });
    const step = parse({ steps: { a: { ...noOp, concurrency } } });
    expect(step).toMatchObject({ issues: [], manifest: { steps: { a: { concurrency } } } });
    const child = parse(loop({ concurrency }));
    expect(child).toMatchObject({ issues: [], manifest: { steps: { each: { steps: { a: { concurrency } } } } } });
  });

  it('has no default', () => {
    expect(parse({}).manifest).not.toHaveProperty('concurrency');
    expect(parse({}).manifest?.steps.a).not.toHaveProperty('concurrency');
  });

  it.each([
    ['nothing at all', 0, 'is out of range; at least 1'],
    ['less than nothing', -1, 'is out of range; at least 1'],
    ['more than any service runs', 10_001, 'is out of range; at most 10000 is accepted'],
    ['half a step', 1.5, 'is not a whole number'],
    ['text', '4', 'is a string; a number is accepted'],
    ['null', null, 'is null; a number is accepted'],
    ['a list', [4], 'is an array; a number is accepted'],
    ['limits by step type', { HttpRequest: 2 }, 'is an object; a number is accepted'],
  ])('is refused where it is %s', (_name, concurrency, message) => {
    expect(parse({ concurrency }).issues).toEqual([expect.stringContaining(`concurrency: ${message}`)]);
    expect(parse({ steps: { a: { ...noOp, concurrency } } }).issues).toEqual([
      expect.stringContaining(`steps.a.concurrency: ${message}`),
    ]);
    expect(parse(loop({ concurrency })).issues).toEqual([
      expect.stringContaining(`steps.each.steps.a.concurrency: ${message}`),
    ]);
  });

  it('is refused on a loop, which takes no slot while its children run', () => {
    expect(parse(loop({}, { concurrency: 2 })).issues).toEqual([
      expect.stringContaining(
        'steps.each.concurrency: is not accepted on a loop; concurrencyLimit limits its iterations',
      ),
    ]);
  });

  it('is refused under a wrong name, with the right one', () => {
    expect(parse({ concurency: 2 }).issues).toEqual([expect.stringContaining('did you mean "concurrency"?')]);
    expect(parse({ steps: { a: { ...noOp, concurency: 2 } } }).issues).toEqual([
      expect.stringContaining('did you mean "concurrency"?'),
    ]);
  });
});
