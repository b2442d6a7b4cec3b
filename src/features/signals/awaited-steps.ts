import { didYouMean, errorAt, type Problem, warningAt } from '../../manifest/issues.ts';
import type { ManifestRules } from '../../manifest/load.ts';
import { mistakeInKey } from '../../manifest/trigger-expressions.ts';
import { signalsOf } from '../../manifest/trigger-objects.ts';
import type { Graph } from '../../model/manifest.ts';

type Manifest = Parameters<ManifestRules['checks'][number]>[0]['manifest'];

/** Whether each trigger that signals names a step that waits for a key, and has nothing that only runs have a use for. */
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
  const step = stepOf(path, steps);
  if (step === undefined) {
    const waiting = keyedSteps(steps);
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

/** What says how runs start, stands in the way of an answer. */
function idleFields(
  triggerKey: string,
  trigger: Extract<Manifest['triggers'][string], { type: 'webhook' }>,
): Problem[] {
  const why = 'is not accepted together with signals: its deliveries start no runs';
  const at = (...path: string[]) => ['triggers', triggerKey, ...path];
  return [
    ...['coalesce', 'reconcile'].flatMap((name) =>
      Reflect.get(trigger, name) === undefined ? [] : [errorAt(at(name), why)],
    ),
    ...(['webhookRespond', 'webhookHoldDeliveries'] as const).flatMap((name) =>
      trigger.inputs[name] === undefined ? [] : [errorAt(at('inputs', name), why)],
    ),
  ];
}

/** A step that no delivery answers may still be answered by a link or by hand. */
function keysWithoutTrigger({ triggers, steps }: Manifest): Problem[] {
  const signalled = new Set(Object.values(triggers).map((trigger) => signalsOf(trigger)?.step));
  return keyedSteps(steps).flatMap((path) => {
    if (signalled.has(path)) return [];
    const at = ['steps', ...path.split('.').join('.steps.').split('.'), 'inputs', 'key'];
    return [warningAt(at, `has no effect: no trigger says "signals": { "step": "${path}" }`)];
  });
}

function stepOf(path: string, steps: Graph): Graph[string] | undefined {
  const [key = '', ...rest] = path.split('.');
  const step = Object.hasOwn(steps, key) ? steps[key] : undefined;
  return rest.length === 0 ? step : step?.steps && stepOf(rest.join('.'), step.steps);
}

function keyedSteps(steps: Graph, before = ''): string[] {
  return Object.entries(steps).flatMap(([key, { type, inputs, steps: inner = {} }]) => [
    ...(type === 'WaitForSignal' && inputs.key !== undefined ? [`${before}${key}`] : []),
    ...keyedSteps(inner, `${before}${key}.`),
  ]);
}
