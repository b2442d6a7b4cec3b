import { expect, it } from 'vitest';
import { ExpressionError } from '../../src/expressions/compile.ts';
import { prepareRevision } from '../../src/flows/prepared-revision.ts';
import { cel, manifestOf, stepOf } from './fixture.ts';

const after = (when: string) => ({ first: { statuses: ['Succeeded' as const], when } });

it('has the entry steps, with their types', () => {
  const steps = { first: stepOf('NoOp'), second: stepOf('Delay', { runAfter: after('true') }), other: stepOf('Fail') };
  const { entry } = prepareRevision(manifestOf(steps, { timeoutSeconds: 60 }), 'folder');
  expect(entry).toEqual({
    steps: [
      { stepKey: 'first', stepType: 'NoOp' },
      { stepKey: 'other', stepType: 'Fail' },
    ],
    end: null,
    timeoutSeconds: 60,
  });
});

it('compiles the conditions and inputs of a step once, inside loops too', () => {
  const child = stepOf('Transform', { inputs: { value: cel('loop.item') } });
  const twin = stepOf('NoOp', { runAfter: { child: { statuses: ['Succeeded'], when: 'loop.index > 0' } } });
  const loop = stepOf('ForEach', { forEach: cel('trigger.body'), steps: { child, twin } });
  const revision = prepareRevision(manifestOf({ each: loop }), 'api');
  const step = revision.step('each.7.child');
  expect(step?.definition).toBe(child);
  expect(step?.inputs()).toBe(revision.step('each.8.child')?.inputs());
  expect(step?.inputs().template.references).toMatchObject([{ path: ['loop', 'item'] }]);
  expect(revision.step('each')?.items?.().written).toEqual({ forEach: cel('trigger.body') });
  expect(revision.step('each.0.twin')?.conditions()).toMatchObject([
    { after: 'child', expression: { source: 'loop.index > 0' } },
  ]);
});

it('renders inputs without expressions once, and freezes them', () => {
  const inputs = { deep: [{ n: 1 }] };
  const { constant } =
    prepareRevision(manifestOf({ a: stepOf('NoOp', { inputs }) }), 'folder')
      .step('a')
      ?.inputs() ?? {};
  expect(constant).toEqual(inputs);
  expect(Object.isFrozen(Reflect.get(Object(constant), 'deep'))).toBe(true);
});

it('says that an expression does not compile where it is asked for, and serves all others', () => {
  const bad = stepOf('NoOp', { inputs: { n: cel('1 +') }, runAfter: after('1 +') });
  const revision = prepareRevision(manifestOf({ first: stepOf('NoOp'), bad }), 'folder');
  expect(() => revision.step('bad')?.inputs()).toThrow();
  expect(() => revision.step('bad')?.conditions()).toThrow(ExpressionError);
  expect(revision.step('bad')?.definition).toBe(bad);
  expect(revision.step('first')?.inputs().constant).toEqual({});
});

it('has no step for a key that the graph does not have', () => {
  const revision = prepareRevision(manifestOf({ first: stepOf('NoOp') }), 'folder');
  expect(['toString', 'first.0.child', 'other'].map((key) => revision.step(key))).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
