import { didYouMean, errorAt, type Problem, warningAt } from '../../manifest/issues.ts';
import type { ManifestRules } from '../../manifest/load.ts';
import { mistakeInKey } from '../../manifest/trigger-expressions.ts';
import { signalsOf } from '../../manifest/trigger-objects.ts';
import { everyStep, type Graph, type PlacedStep } from '../../model/manifest.ts';

type Manifest = Parameters<ManifestRules['checks'][number]>[0]['manifest'];

/** Checks that each signalling trigger names a step that waits for a key, and has no fields that only concern runs. */
export const signalChecks: ManifestRules['checks'][number] = ({ manifest }) => [
  ...Object.entries(manifest.triggers).flatMap(([triggerKey, trigger]) => {
    const target = signalsOf(trigger);
    if (trigger.type !== 'webhook' || target === undefined) return [];
    const mistake = mistakeInKey(target.key);
    return [
      ...(mistake === undefined ? [] : [errorAt(['triggers', triggerKey, 'signals', 'key'], mistake)]),
      ...stepProblems(target.step, manifest.steps, ['triggers', triggerKey, 'signals', 'step']),
      ...idleFields(triggerKey, trigger),
    ];
  }),
  ...keysWithoutTrigger(manifest),
];

function stepProblems(path: string, steps: Graph, at: string[]): Problem[] {
  const step = everyStep(steps).find((each) => pathOf(each) === path)?.step;
  if (step === undefined) {
    const waiting = keyedSteps(steps).map(pathOf);
    const ofLoop = waiting.find((known) => known.endsWith(`.${path}`));
    const hint = ofLoop === undefined ? didYouMean(path, waiting) : `; did you mean "${ofLoop}"?`;
    return [errorAt(at, `is not a step of this flow${hint}`)];
  }
  if (step.type !== 'WaitForSignal') {
    return [errorAt(at, `is a ${step.type} step; a WaitForSignal step waits for deliveries`)];
  }
  if (step.inputs.key === undefined) {
    return [errorAt(at, `has no key: its inputs need one, as in "key": "\${trigger.body.sha}"`)];
  }
  return [];
}

/** Fields about starting runs make no sense on a trigger that answers steps. */
function idleFields(
  triggerKey: string,
  trigger: Extract<Manifest['triggers'][string], { type: 'webhook' }>,
): Problem[] {
  const why = 'is not accepted together with signals: its deliveries start no runs';
  const at = ['triggers', triggerKey];
  const idleIn = (fields: object, path: readonly string[], names: readonly string[]) =>
    names.flatMap((name) => (Reflect.get(fields, name) === undefined ? [] : [errorAt([...path, name], why)]));
  return [
    ...idleIn(trigger, at, ['coalesce', 'reconcile']),
    ...idleIn(trigger.inputs, [...at, 'inputs'], ['webhookRespond', 'webhookHoldDeliveries']),
  ];
}

/** A step that no trigger answers can still be answered by a link or by hand. */
function keysWithoutTrigger({ triggers, steps }: Manifest): Problem[] {
  const signalled = new Set(Object.values(triggers).map((trigger) => signalsOf(trigger)?.step));
  return keyedSteps(steps).flatMap((step) => {
    const path = pathOf(step);
    if (signalled.has(path)) return [];
    const why = `has no effect: no trigger says "signals": { "step": "${path}" }`;
    return [warningAt([...step.at, 'inputs', 'key'], why)];
  });
}

const keyedSteps = (steps: Graph) =>
  everyStep(steps).filter(({ step: { type, inputs } }) => type === 'WaitForSignal' && inputs.key !== undefined);

/** The path as used in `signals`: `orders.approval` for the step `approval` of the loop `orders`. */
const pathOf = ({ at }: PlacedStep) => at.filter((_, index) => index % 2 === 1).join('.');
