import { formatPath } from '../../expressions/json-path.ts';
import { didYouMean } from '../../manifest/issues.ts';
import type { LoadedFlow } from '../../manifest/load.ts';
import { STEP_KEY } from '../../manifest/schema.ts';
import { type Graph, RUN_FLOW, TRIGGER_TYPES } from '../../model/manifest.ts';
import { stepAt } from '../../model/runtime-keys.ts';
import type { SavedTest, TestProblem } from './saved-test.ts';

/** Names in a test that its flow does not have. */
export function problemsOf(
  { trigger, answers, signals }: SavedTest,
  flow: LoadedFlow,
  flows: readonly LoadedFlow[],
): TestProblem[] {
  const { triggers } = flow.manifest;
  const isOwn = TRIGGER_TYPES.some((type) => type === trigger.type);
  const unknown = isOwn && !Object.hasOwn(triggers, trigger.key);
  const hint = didYouMean(trigger.key, Object.keys(triggers));
  const named = [
    ...Object.keys(answers).map((path) => ({ path, at: ['answers', path] })),
    ...signals.map(({ step }, index) => ({ path: step, at: ['signals', index, 'step'] })),
  ];
  return [
    ...(unknown ? [{ path: 'trigger.key', message: `the flow has no such trigger${hint}` }] : []),
    ...named.flatMap(({ path, at }) => {
      const message = problemOfPath(path, flow, flows);
      return message === undefined ? [] : [{ path: formatPath(at), message }];
    }),
  ];
}

/** Why a path does not name a step; undefined if it does. */
export function problemOfPath(path: string, flow: LoadedFlow, flows: readonly LoadedFlow[]): string | undefined {
  const [first = '', ...rest] = path.split('/');
  const { steps, onFailure } = flow.manifest;
  if (rest.length === 0) return problemOfKey(first, steps);
  const isFailure = first === '(onFailure)';
  const place = first.replace(/#\d+$/, '');
  const problem = isFailure ? undefined : problemOfKey(place, steps);
  if (problem !== undefined) return problem;
  const starter = stepAt(steps, place);
  const started = isFailure ? onFailure : starter?.type === RUN_FLOW ? starter.inputs.flow : undefined;
  if (typeof started !== 'string') return isFailure ? 'the flow has no onFailure' : `the step "${place}" runs no flow`;
  const next = flows.find(({ manifest }) => manifest.id === started.toLowerCase());
  return next === undefined ? `no manifest has the id ${started}` : problemOfPath(rest.join('/'), next, flows);
}

function problemOfKey(key: string, graph: Graph): string | undefined {
  const isKey = key.split('.').every((part, index) => (index % 2 === 0 ? STEP_KEY : /^\d{1,6}$/).test(part));
  if (isKey && key.split('.').length % 2 === 1 && stepAt(graph, key) !== undefined) return undefined;
  return `the flow has no step "${key}"${didYouMean(key, Object.keys(graph))}`;
}
