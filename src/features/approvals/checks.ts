import { formatPath, type JsonPath, mapStrings } from '../../expressions/json-path.ts';
import { compileTemplate, hasPlaceholder, TemplateError } from '../../expressions/template.ts';
import { didYouMean, errorAt, type Problem, warningAt } from '../../manifest/issues.ts';
import type { ManifestRules } from '../../manifest/load.ts';
import { isJsonArray } from '../../model/json.ts';
import { type Graph, RUN_FLOW, type StepDefinition } from '../../model/manifest.ts';
import { questionIn } from './links.ts';

/** Checks places that read `waits`, and the steps that they name. */
export function waitChecks(publicUrl: () => string | undefined): ManifestRules['checks'][number] {
  return ({ manifest: { steps } }) => checkGraph([steps], ['steps'], publicUrl() !== undefined);
}

/** The graphs whose steps a step can name, innermost first. */
type Seen = readonly Graph[];

/** Searches a graph once, however many of its steps ask. */
const waitingOf = new WeakMap<Graph, readonly string[]>();

/** The first steps of a graph that wait for signals: a hint needs no more. */
function waitingIn(graph: Graph): readonly string[] {
  const waiting =
    waitingOf.get(graph) ??
    Object.keys(graph)
      .filter((key) => graph[key]?.type === 'WaitForSignal')
      .slice(0, 20);
  waitingOf.set(graph, waiting);
  return waiting;
}

function checkGraph(seen: Seen, path: JsonPath, isOn: boolean): Problem[] {
  return Object.entries(seen[0] ?? {}).flatMap(([key, step]) => {
    const at = [...path, key];
    return [
      ...checkChoices(step, [...at, 'inputs', 'choices']),
      ...readsOf(step, at).flatMap((read) => checkRead(read, { step, seen, isOn })),
      ...checkGraph([step.steps ?? {}, ...seen], [...at, 'steps'], isOn),
    ];
  });
}

function checkChoices({ type, inputs: { choices } }: StepDefinition, at: JsonPath): Problem[] {
  if (type !== 'WaitForSignal' || choices === undefined) return [];
  const texts = isJsonArray(choices) ? choices : [choices];
  const isRendered = texts.some((choice) => typeof choice === 'string' && hasPlaceholder(choice));
  return isRendered ? [errorAt(at, 'contains an expression; choices are shown before the step has begun')] : [];
}

interface Read {
  readonly at: JsonPath;
  /** Undefined if the data chooses the step, or all steps are read. */
  readonly name: string | number | undefined;
}

function readsOf({ inputs, forEach = null, runAfter }: StepDefinition, at: JsonPath): Read[] {
  const found: Read[] = [];
  const look = (template: string, place: JsonPath) => {
    if (!template.includes('waits')) return;
    try {
      const { references } = compileTemplate(template);
      for (const { root, path } of references) if (root === 'waits') found.push({ at: place, name: path[1] });
    } catch (error) {
      // The check of manifests reports templates that do not compile.
      if (!(error instanceof TemplateError)) throw error;
    }
  };
  mapStrings({ inputs, forEach }, (text, place) => {
    look(text, [...at, ...place]);
    return text;
  });
  for (const [upstream, { when }] of Object.entries(runAfter)) {
    if (when !== undefined) look(`\${${when}}`, [...at, 'runAfter', upstream, 'when']);
  }
  return found;
}

function checkRead(
  { at, name }: Read,
  { step, seen, isOn }: { readonly step: StepDefinition; readonly seen: Seen; readonly isOn: boolean },
): Problem[] {
  if (step.type === RUN_FLOW) {
    return [
      errorAt(at, 'reads waits: the link would be stored in the run that it starts; send it from a step of this flow'),
    ];
  }
  if (step.steps !== undefined || formatPath(at).endsWith('.when')) {
    return [errorAt(at, 'reads waits, which only inputs of steps read: the link would be stored')];
  }
  const off = isOn ? [] : [warningAt(at, 'reads waits, but SLUICE_PUBLIC_URL is not set: the step will fail')];
  if (name === undefined) return off;
  const known = seen.find((graph) => Object.hasOwn(graph, name))?.[name];
  if (known === undefined) {
    const hint = didYouMean(String(name), seen.flatMap(waitingIn));
    return [errorAt(at, `reads waits.${name}, but no step that it sees has this key${hint}`)];
  }
  if (known.type !== 'WaitForSignal') {
    return [errorAt(at, `reads waits.${name}, but the step is a ${known.type}; a WaitForSignal step has a link`)];
  }
  const question = questionIn(known.inputs, String(name));
  if (question === undefined) {
    return [errorAt(at, `reads waits.${name}, but the step has no choices, as in "choices": ["approve", "reject"]`)];
  }
  if (question.signalName === undefined) {
    return [
      errorAt(at, `reads waits.${name}, but an expression gives its signalName, which an early answer has to know`),
    ];
  }
  return off;
}
