// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.

import { describe, expect, it } from 'vitest';
import { gravest } from '../../../src/deploys/changes/index.ts';
import type { Manifest } from '../../../src/manifest/schema.ts';
import type { Finding } from '../../../src/model/finding.ts';
import type { Json } from '../../../src/model/json.ts';
import { mergePatch } from './merge-patch.ts';
import { compare, flow, load, NOW, noOp, snapshot, withHistory } from './samples.ts';

const say = (message: string, ...after: string[]) => ({ ...noOp(...after), type: 'LogMessage', inputs: { message } });
const call = (...after: string[]) => ({
  ...noOp(...after),
  type: 'HttpRequest',
  inputs: { url: 'https://example.com/', headers: { authorization: 'Bearer literal' } },
});
const loop = (steps: object, ...after: string[]) => ({ ...noOp(...after), type: 'ForEach', forEach: [1], steps });
const chain = { a: say('one'), b: noOp('a'), c: say('${steps.a.output}', 'b') };
const ran = withHistory('a', 'b', 'c', 'each', 'one', 'two');

const patched = (manifest: object, findings: readonly Finding[]) =>
  findings.reduce<Json>((result, { recipe }) => mergePatch(result, recipe?.patch ?? {}), manifest as Json) as object;
const breaking = (findings: readonly Finding[]) => findings.filter((finding) => finding.class === 'breaking');

describe('the patch of a recipe', () => {
  it.each<[string, object, object]>([
    ['a leaf was removed', chain, { a: say('one'), b: noOp('a') }],
    ['an entry step was removed', chain, { b: noOp(), c: noOp('b') }],
    ['a step was removed from a path', chain, { a: say('one'), c: say('${steps.a.output}', 'a') }],
    ['a step and what it ran after were removed', chain, { a: say('one') }],
    ['everything was removed', chain, {}],
    ['a step and what it read were removed', chain, { b: noOp() }],
    ['a step was renamed', chain, { a: say('one'), b2: noOp('a'), c: say('${steps.a.output}', 'b2') }],
    ['an entry step was renamed', chain, { first: say('one'), b: noOp('first'), c: say('${steps.first.output}', 'b') }],
    ['everything was renamed', chain, { x: say('one'), y: noOp('x'), z: say('${steps.x.output}', 'y') }],
    ['a step with null in its inputs was removed', { ...chain, two: { ...noOp('c'), inputs: { any: [null] } } }, chain],
    ['a loop was removed', { ...chain, each: loop({ x: noOp(), y: noOp('x') }, 'a') }, chain],
    ['a loop that was an entry step was removed', { each: loop({ x: noOp() }), one: noOp('each') }, { one: noOp() }],
    ['a child was removed', { each: loop({ x: noOp(), y: noOp('x') }) }, { each: loop({ x: noOp() }) }],
    [
      'an entry child was renamed',
      { each: loop({ x: noOp(), y: noOp('x') }) },
      { each: loop({ z: noOp(), y: noOp('z') }) },
    ],
    ['a step with a secret was removed', { one: noOp(), two: call('one') }, { one: noOp() }],
    ['an entry step with a secret was removed', { one: call(), two: noOp('one') }, { two: noOp() }],
    [
      'a step with conditions was removed',
      { ...chain, two: { type: 'NoOp', runAfter: { a: { when: 'steps.a.output == "x"' }, c: ['Failed'] } } },
      chain,
    ],
  ])('is loaded without errors, and breaks nothing, where %s', (_, before, after) => {
    const found = breaking(compare(flow(before), flow(after), ran));
    expect(found.length).toBeGreaterThan(0);
    const all = patched(flow(after), found);
    expect(gravest(compare(flow(before), all, ran))).not.toBe('breaking');
    for (const finding of found) {
      const one = patched(flow(after), [finding]);
      expect(() => load(one)).not.toThrow();
      expect(breaking(compare(flow(before), one, ran)).map(({ path }) => path)).not.toContain(finding.path);
    }
  });

  it('gives the flow its id back', () => {
    const before = flow(chain);
    const after = flow(chain, { id: '0f8fad5b-d9cb-469f-a165-70867728950f', version: '2' });
    const found = compare(before, after);
    expect(gravest(found)).toBe('breaking');
    expect(gravest(compare(before, patched(after, found)))).toBe('safe');
  });

  it('has no secret that was written out, and says where one has to be put back', () => {
    const [finding] = compare(flow({ one: noOp(), two: call('one') }), flow({ one: noOp() }), ran);
    expect(JSON.stringify(finding)).not.toContain('literal');
    expect(finding?.recipe?.steps.join(' ')).toContain('contain a secret that is not stored');
  });
});

describe('what a recipe keeps', () => {
  it('guards a step with upstream, and leaves type and inputs to runs in flight', () => {
    const steps = { ...chain, d: noOp('b') };
    const [finding] = compare(
      flow({ ...steps, c: say('${steps.a.output}', 'a') }),
      flow({ a: say('one'), b: noOp('a'), d: noOp('b') }),
      ran,
    );
    expect(finding?.recipe?.patch).toEqual({
      steps: {
        c: {
          type: 'LogMessage',
          inputs: { message: '${steps.a.output}' },
          runAfter: { a: { statuses: ['Succeeded'], when: 'false' } },
        },
      },
    });
  });

  it('points a step behind the last one at a handler that does nothing, and says why', () => {
    const [finding] = compare(flow(chain), flow({ a: say('one'), b: noOp('a') }), ran);
    expect(finding?.recipe?.patch).toEqual({
      steps: { c: { type: 'NoOp', inputs: {}, runAfter: { b: { statuses: ['Succeeded'] } } } },
    });
    expect(finding?.recipe?.steps[0]).toBe(
      'Put `c` back into the manifest, with the type NoOp after `b` (a condition would skip it, and every run would end as ' +
        'Skipped): the patch does that.',
    );
  });

  it('says that the last step of a loop leaves null while it is kept', () => {
    const before = { each: loop({ x: noOp(), y: noOp('x') }) };
    const [finding] = compare(flow(before), flow({ each: loop({ x: noOp() }) }), ran);
    expect(finding?.recipe?.steps[1]).toContain('Check what reads the output of the loop `each`');
  });

  it('points an entry step at a handler that does nothing', () => {
    const [finding] = compare(flow(chain), flow({ b: noOp(), c: noOp('b') }), ran);
    const kept = (
      snapshot(
        patched(flow({ b: noOp(), c: noOp('b') }), finding === undefined ? [] : [finding]),
      ) as unknown as Manifest
    ).steps;
    expect(kept.a).toEqual({ type: 'NoOp', inputs: { message: 'one' }, runAfter: {} });
  });

  it('says from when on the old key may go: the last run of the step, and the time that runs are kept', () => {
    const [finding] = compare(flow(chain), flow({ a: say('one'), b: noOp('a') }), ran);
    expect(finding?.recipe?.removableFrom).toBe(new Date(NOW + 30 * 86_400_000).toISOString());
    expect(finding?.recipe?.steps.at(-1)).toContain('2026-03-31T12:00:00.000Z');
  });
});
