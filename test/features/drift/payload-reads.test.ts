import { describe, expect, it } from 'vitest';
import { joined, keyReads, stepReads } from '../../../src/features/drift/payload-reads.ts';
import { prepareRevision } from '../../../src/flows/prepared-revision.ts';
import type { Graph } from '../../../src/model/manifest.ts';
import { sampleTrigger } from '../../webhooks/samples.ts';

/** The parts of deliveries that a graph reads. Steps by key: `message`, `after`, and other fields in `more`. */
function readsOf(steps: Record<string, { message?: string; after?: object; more?: object }>): string[] {
  const graph = Object.fromEntries(
    Object.entries(steps).map(([key, { message = '', after = {}, more = {} }]) => [
      key,
      { type: 'LogMessage', inputs: { message }, runAfter: after, ...more },
    ]),
  ) as Graph;
  const manifest = { id: '', name: '', version: '', triggers: {}, steps: graph };
  const flow = { loaded: { manifest }, prepared: prepareRevision(manifest, 'folder') };
  return stepReads(flow as never).map(({ use, text, at }) => `${use} ${text} at ${at}`);
}
const ok = { statuses: ['Succeeded'] };

describe('what a flow reads of its deliveries', () => {
  it('is what its inputs and conditions read, and nothing of its steps', () => {
    expect(
      readsOf({
        a: { message: `\${trigger.body.x} and \${trigger.headers['x-y']} and \${trigger.key}` },
        b: { message: `\${steps.a.output.z} \${trigger.body}`, after: { a: { ...ok, when: 'trigger.body.w > 1' } } },
      }),
    ).toEqual([
      'required body.x at steps.a.inputs.message',
      'required headers.x-y at steps.a.inputs.message',
      'required body.w at steps.b.runAfter.a.when',
    ]);
  });

  it('is conditional in steps that may not run, and in those after them', () => {
    expect(
      readsOf({
        a: {},
        b: { message: `\${trigger.body.b}`, after: { a: { ...ok, when: 'true' } } },
        c: { message: `\${trigger.body.c}`, after: { b: ok } },
        d: { message: `\${trigger.body.d}`, after: { a: { statuses: ['Failed'] } } },
        e: { message: `\${trigger.body.e}`, after: { a: { statuses: ['Succeeded', 'Failed'] } } },
      }).map((read) => read.split(' at ')[0]),
    ).toEqual(['conditional body.b', 'conditional body.c', 'conditional body.d', 'required body.e']);
  });

  it('is found in a chain of 10 000 steps that is written from its end', () => {
    const chain = Array.from({ length: 10_000 }, (_, n) => 9_999 - n).map((n): [string, { after: object }] => [
      `s${n}`,
      { after: n === 0 ? {} : { [`s${n - 1}`]: ok } },
    ]);
    const steps = { last: { message: `\${trigger.body.x}`, after: { s9999: ok } }, ...Object.fromEntries(chain) };
    expect(readsOf(steps)).toEqual(['required body.x at steps.last.inputs.message']);
  });

  it('follows the items of loops, also of loops in loops', () => {
    const child = { type: 'LogMessage', inputs: { message: `\${loop.item.sku} \${loop.index}` }, runAfter: {} };
    const inner = { type: 'ForEach', inputs: {}, runAfter: {}, forEach: `\${loop.item.lines}`, steps: { child } };
    expect(
      readsOf({ all: { more: { type: 'ForEach', forEach: `\${trigger.body.orders}`, steps: { inner, child } } } }),
    ).toEqual([
      'required body.orders at steps.all.forEach',
      'required body.orders[].lines at steps.all.steps.inner.forEach',
      'required body.orders[].lines[].sku at steps.all.steps.inner.steps.child.inputs.message',
      'required body.orders[].sku at steps.all.steps.child.inputs.message',
    ]);
  });

  it('knows nothing of the items of lists that are worked out', () => {
    const child = { type: 'LogMessage', inputs: { message: `\${loop.item.sku}` }, runAfter: {} };
    for (const forEach of [`\${[trigger.body.a]}`, [`\${trigger.body.a}`], `\${steps.x.output}`]) {
      const reads = readsOf({ all: { more: { type: 'ForEach', forEach, steps: { child } } } });
      expect(reads.filter((read) => read.includes('sku'))).toEqual([]);
    }
  });

  it('is optional where the flow asks for it, unless every run needs it', () => {
    const asked = { ...ok, when: 'has(trigger.body.note)' };
    const steps = { a: {}, b: { message: `\${trigger.body.note.text}`, after: { a: asked } } };
    expect(readsOf(steps).map((read) => read.split(' at ')[0])).toEqual([
      'optional body.note',
      'optional body.note.text',
    ]);
    expect(readsOf({ ...steps, c: { message: `\${trigger.body.note}` } })).toContain(
      'required body.note at steps.b.runAfter.a.when',
    );
  });

  it('is at most 64 paths, none longer than 200 characters', () => {
    const many = Array.from({ length: 100 }, (_, n) => `\${trigger.body.p${n}}`).join('');
    expect(readsOf({ a: { message: many } })).toHaveLength(64);
    expect(readsOf({ a: { message: `\${trigger.body.${'x'.repeat(200)}}` } })).toEqual([]);
  });

  it('is named by its search keys first', () => {
    const keys = keyReads({ ...sampleTrigger({}), triggerKey: 'hook', searchKeys: { order: 'body.order.id' } });
    expect(joined(keys)).toEqual([
      { path: ['body', 'order', 'id'], text: 'body.order.id', use: 'required', at: 'triggers.hook.searchKeys' },
    ]);
  });
});
