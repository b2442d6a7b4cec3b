// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.
import type { FindingClass } from '../../../src/model/finding.ts';
import { noOp, step } from './samples.ts';

/** One kind of edit, its name, and whether a run in flight that may finish notices nothing of it. */
export interface Edit {
  readonly name: string;
  readonly before: object;
  readonly after: object;
  /** If every step has history. */
  readonly class: FindingClass;
  /** Runs in flight do exactly what they would have done, except for inputs. */
  readonly isHarmless: boolean;
}

const on = (edges: object, type = 'NoOp', inputs: object = {}) => ({ type, inputs, runAfter: edges });
const loop = <Children extends object>(steps: Children, rest: object = {}, ...after: string[]) => ({
  ...noOp(...after),
  type: 'ForEach',
  forEach: [1, 2],
  steps,
  ...rest,
});

/** A bit of everything: a wait, a signal, a retry, a loop, a skipped branch, and a branch that handles a failure. */
const steps = {
  fetch: step('LogMessage', { message: 'fetch' }),
  pause: step('Delay', { seconds: 60 }, 'fetch'),
  approve: step('WaitForSignal', { signalName: 'go' }, 'pause'),
  flaky: { ...step('Flaky', {}, 'approve'), retry: { maxAttempts: 2, jitter: false } },
  each: loop({ x: noOp(), y: step('LogMessage', { message: '${loop.item}' }, 'x') }, {}, 'flaky'),
  breaks: step('Fail', { message: 'no' }, 'each'),
  handles: on({ breaks: ['Failed'] }),
  never: on({ breaks: ['Succeeded'] }),
  guarded: on({ handles: { when: 'steps.fetch.status == "Failed"' } }),
  done: step('Transform', { value: 1 }, 'handles'),
};
const { done: _done, ...withoutDone } = steps;
const { fetch: _fetch, ...withoutFetch } = steps;
const { flaky: _flaky, ...withoutFlaky } = steps;

const edit = (name: string, change: object, expected: FindingClass, isHarmless = true): Edit => ({
  name,
  before: { steps },
  after: { steps: { ...steps, ...change } },
  class: expected,
  isHarmless,
});
const whole = (name: string, after: object, expected: FindingClass, isHarmless = true): Edit => ({
  name,
  before: { steps },
  after,
  class: expected,
  isHarmless,
});

export const EDITS: readonly Edit[] = [
  edit('nothing', {}, 'safe'),
  edit('a leaf at the end', { extra: noOp('done') }, 'safe'),
  edit('a leaf outside the path', { extra: noOp('fetch') }, 'safe'),
  edit('an entry step', { extra: noOp() }, 'safe'),
  edit('a chain of leaves', { extra: noOp('fetch'), more: noOp('extra') }, 'safe'),
  edit('a leaf that handles a failure', { extra: on({ flaky: ['Failed'] }) }, 'safe'),
  whole('a version, a name and a time limit', { steps, version: '2', name: 'Other', timeoutSeconds: 1 }, 'safe'),
  whole('a trigger', { steps, triggers: { byHand: { type: 'manual' } } }, 'safe'),
  edit(
    'a retry policy',
    { flaky: { ...steps.flaky, retry: { maxAttempts: 9, backoffSeconds: 5, jitter: false } } },
    'safe',
  ),
  edit('no retry policy', { flaky: step('Flaky', {}, 'approve') }, 'safe'),
  edit('a time limit of a step', { approve: { ...steps.approve, timeoutSeconds: 0.001 } }, 'safe'),
  edit('items of a loop', { each: { ...steps.each, forEach: [1, 2, 3] } }, 'safe'),
  edit('the concurrency of a loop', { each: { ...steps.each, concurrencyLimit: 2 } }, 'safe'),
  edit('a limit of a step type', { approve: { ...steps.approve, concurrency: 1 } }, 'safe'),
  whole('a limit of the flow', { steps, concurrency: 1 }, 'safe'),
  edit('a child leaf', { each: { ...steps.each, steps: { ...steps.each.steps, z: noOp('y') } } }, 'safe'),
  edit('inputs', { done: step('Transform', { value: 2 }, 'handles') }, 'safe'),
  edit(
    'inputs of a child',
    { each: { ...steps.each, steps: { ...steps.each.steps, y: step('LogMessage', { message: 'z' }, 'x') } } },
    'safe',
  ),

  edit('a step in a path', { extra: noOp('fetch'), pause: step('Delay', { seconds: 60 }, 'extra') }, 'caution'),
  edit(
    'a step in front of the entry',
    { extra: noOp(), fetch: step('LogMessage', { message: 'fetch' }, 'extra') },
    'caution',
  ),
  edit(
    'a child in a path',
    {
      each: {
        ...steps.each,
        steps: { x: noOp(), n: noOp('x'), y: step('LogMessage', { message: '${loop.item}' }, 'n') },
      },
    },
    'caution',
  ),
  edit('another upstream step', { done: step('Transform', { value: 1 }, 'fetch') }, 'caution'),
  edit('other statuses', { never: on({ breaks: ['Failed'] }) }, 'caution'),
  edit('no upstream step', { done: step('Transform', { value: 1 }) }, 'caution'),
  edit('a condition', { done: on({ handles: { when: 'false' } }, 'Transform', { value: 1 }) }, 'caution'),
  edit('another condition', { guarded: on({ handles: { when: 'true' } }) }, 'caution'),
  edit('no condition', { guarded: on({ handles: ['Succeeded'] }) }, 'caution'),
  edit('a type with the same inputs', { handles: on({ breaks: ['Failed'] }, 'Flaky') }, 'caution'),
  edit(
    'a type with inputs that the old one takes too',
    { handles: on({ breaks: ['Failed'] }, 'LogMessage', { message: 'x' }) },
    'caution',
  ),
  edit(
    'a type with inputs that the old one does not take',
    { done: step('LogMessage', { message: 'x' }, 'handles') },
    'caution',
    false,
  ),
  edit(
    'inputs that read an inserted step',
    {
      extra: noOp('handles'),
      done: step('Transform', { value: '${steps.extra.output}' }, 'extra'),
    },
    'caution',
    false,
  ),
  edit(
    'a loop in the place of a step',
    { handles: loop({ x: noOp() }, { runAfter: { breaks: ['Failed'] } }) },
    'caution',
  ),

  whole('no leaf', { steps: withoutDone }, 'breaking'),
  whole(
    'no entry step',
    { steps: { ...withoutFetch, pause: step('Delay', { seconds: 60 }), guarded: on({ handles: ['Succeeded'] }) } },
    'breaking',
  ),
  whole('no step in a path', { steps: { ...withoutFlaky, each: loop(steps.each.steps, {}, 'approve') } }, 'breaking'),
  whole('another key', { steps: { ...withoutDone, finished: steps.done } }, 'breaking'),
  edit('no child', { each: loop({ x: noOp() }, {}, 'flaky') }, 'breaking'),
  edit('another key of a child', { each: loop({ x: noOp(), z: steps.each.steps.y }, {}, 'flaky') }, 'breaking'),
];
