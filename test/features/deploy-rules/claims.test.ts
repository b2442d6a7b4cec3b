// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import { beforeAll, describe, expect, it } from 'vitest';
import { compareRevisions } from '../../../src/deploys/changes/index.ts';
import { noOp, SETTINGS, step, withHistory } from './samples.ts';
import { openStage, type Stage } from './stage.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});

const loop = (items: readonly number[], message: string) => ({
  ...noOp('first'),
  type: 'ForEach',
  forEach: items,
  steps: { say: step('LogMessage', { message }) },
});

/** Runs `before`, deploys `after` when the first step has run; returns what the findings said, and what happened. */
async function play(before: object, after: object, rest: object = {}) {
  const manifests = { before: { steps: before, ...rest }, after: { steps: after, ...rest } };
  const [old, next] = [stage.load(manifests.before), stage.load(manifests.after)];
  const live = withHistory(...Object.keys(before));
  const findings = compareRevisions({ before: old.snapshot, after: next.snapshot, live, settings: SETTINGS });
  const said = (rule: string) => findings.find((finding) => finding.rule === rule)?.consequence;
  return { said, ran: await stage.perform({ ...manifests, attempts: 1 }) };
}

describe('what a finding says comes true', () => {
  it('of inputs: runs in flight that start the step take the new ones', async () => {
    const { said, ran } = await play(
      { first: noOp(), say: step('LogMessage', { message: 'old' }, 'first') },
      { first: noOp(), say: step('LogMessage', { message: 'new' }, 'first') },
    );
    expect(said('step-inputs-changed')).toContain('use the new ones');
    expect(ran.inputs.say).toEqual({ message: 'new' });
  });

  it('of a type: the old one gets inputs that were written for the new one', async () => {
    const { said, ran } = await play(
      { first: noOp(), pause: step('Delay', { seconds: 1 }, 'first') },
      { first: noOp(), pause: step('LogMessage', { message: 'x' }, 'first') },
    );
    expect(said('type-changed')).toContain('Delay gets inputs that were written for LogMessage');
    expect(ran).toMatchObject({ steps: { pause: 'Failed Delay' }, errors: { pause: 'invalid_input' } });
  });

  it.each([
    ['written out', 'literal-secret', 'Failed Call', { call: 'secret_not_kept' }],
    ['a reference', 'env:TOKEN', 'Succeeded Call', {}],
  ])(
    'of a step that is removed: it still runs, unless it needs a secret that was written out (%s)',
    async (_, token, status, errors) => {
      const { said, ran } = await play({ first: noOp(), call: step('Call', { token }, 'first') }, { first: noOp() });
      expect(said('step-removed')).toContain('they still run `call`');
      expect(said('step-removed')).toContain('a step that needs one fails');
      expect(ran).toMatchObject({ steps: { call: status }, errors });
    },
  );

  it('of a renamed step: runs in flight go on under the old key', async () => {
    const { said, ran } = await play(
      { first: noOp(), old: step('LogMessage', { message: 'x' }, 'first') },
      { first: noOp(), new: step('LogMessage', { message: 'x' }, 'first') },
    );
    expect(said('step-renamed')).toContain('they continue with `old`');
    expect(ran).toMatchObject({ steps: { old: 'Succeeded LogMessage' }, inputs: { old: { message: 'x' } } });
    expect(ran.steps).not.toHaveProperty('new');
  });

  it('of inputs that are pinned: runs in flight keep theirs', async () => {
    const { said, ran } = await play(
      { first: noOp(), say: step('LogMessage', { message: 'old' }, 'first') },
      { first: noOp(), say: step('LogMessage', { message: 'new' }, 'first') },
      { pinInputs: true },
    );
    expect(said('step-inputs-changed')).toContain('Runs of a revision with `pinInputs` keep theirs');
    expect(ran.inputs).toMatchObject({ say: { message: 'old' } });
  });

  it('of the items of a loop: the old ones, with the newest inputs of its children', async () => {
    const { said, ran } = await play(
      { first: noOp(), each: loop([1, 2], 'old ${loop.item}') },
      { first: noOp(), each: loop([7, 8, 9], 'new ${loop.item}') },
    );
    expect(said('for-each-changed')).toContain('loops over the items of that revision');
    expect(ran.inputs).toMatchObject({ 'each.0.say': { message: 'new 1' }, 'each.1.say': { message: 'new 2' } });
    expect(ran.steps).not.toHaveProperty('each.2.say');
  });

  it('of inputs that read a step which a run in flight does not have', async () => {
    const { said, ran } = await play(
      { first: noOp(), say: step('LogMessage', { message: 'x' }, 'first') },
      { first: noOp(), extra: noOp('first'), say: step('LogMessage', { message: '${steps.extra.status}' }, 'extra') },
    );
    expect(said('inputs-read-unknown-step')).toContain('`say` fails there');
    expect(ran).toMatchObject({ steps: { say: 'Failed LogMessage' }, errors: { say: 'expression_failed' } });
  });

  it('of a key that is used again: the earlier step takes the inputs of the new one', async () => {
    const before = { first: noOp(), say: step('LogMessage', { message: 'old' }, 'first') };
    const between = { first: noOp() };
    const after = { first: noOp(), say: step('Transform', { value: 'new' }) };
    const snapshots = { before: stage.load({ steps: between }).snapshot, after: stage.load({ steps: after }).snapshot };
    const [finding] = compareRevisions({ ...snapshots, live: withHistory('first', 'say'), settings: SETTINGS });
    expect(finding).toMatchObject({ rule: 'step-key-reused', class: 'caution' });
    expect(finding?.consequence).toContain('takes the inputs of the new one');
    const ran = await stage.perform({ before: { steps: before }, after: { steps: after }, attempts: 1 });
    expect(ran).toMatchObject({ steps: { say: 'Failed LogMessage' }, inputs: { say: { value: 'new' } } });
  });
});
