import type { CompiledExpression, Vars } from '../expressions/compile.ts';
import { compileCondition } from '../expressions/condition.ts';
import type { ExpressionContext } from '../expressions/context.ts';
import { orderKeyReader } from '../expressions/order-key.ts';
import { type CompiledTemplate, compileTemplate } from '../expressions/template.ts';
import type { Manifest } from '../manifest/schema.ts';
import { varsIn } from '../manifest/vars.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { Graph, ManifestSource, StepDefinition } from '../model/manifest.ts';
import { entryOf, type WiredGraph, wire } from '../model/planner.ts';
import type { RunOrder } from '../model/run.ts';
import { stepAt } from '../model/runtime-keys.ts';

/**
 * Everything that the runs of a revision need, compiled once: when it is deployed or restored, or for the first run of
 * an older one. A revision never changes, so neither does this.
 */
export interface PreparedRevision {
  readonly graph: Graph;
  /** Origin of the manifest, which decides which secrets its steps can name. */
  readonly source: ManifestSource;
  readonly entry: ReturnType<typeof entryOf>;
  /** Id of the flow that a failed run starts. */
  readonly onFailure: string | null;
  /** Whether its runs take the inputs of their steps from it, whatever is deployed later. */
  readonly pinsInputs: boolean;
  /** Reads the key of a run, if runs with the same key run one at a time. */
  readonly readOrderKey: ReturnType<typeof orderKeyReader> | undefined;
  /** Whether it limits how many of its steps, or steps of one type, run at once. */
  readonly isLimited: boolean;
  /** By runtime key; undefined if the revision has no such step. */
  step(stepKey: string): PreparedStep | undefined;
}

/**
 * A step with its expressions compiled. A stored revision of an earlier release may contain an expression that no
 * longer compiles: reading that one throws, and all other steps still work.
 */
export interface PreparedStep {
  readonly definition: StepDefinition;
  /** The conditions of its edges, in manifest order. */
  conditions(): readonly Condition[];
  inputs(): PreparedInputs;
  /** The items of a loop, under `forEach`; undefined for other steps. */
  readonly items: (() => PreparedInputs) | undefined;
  /** The children of a loop. */
  readonly steps?: PreparedGraph | undefined;
  /** The most steps that its end can make due; for the last step in a loop, those that begin the next iteration. */
  readonly followers: number;
  /** Whether a step of the same graph runs after it has failed. */
  readonly isFailureHandled: boolean;
}

type PreparedGraph = Readonly<Record<string, PreparedStep>>;

interface Condition {
  /** Key of the step at the start of the edge. */
  readonly after: string;
  readonly expression: CompiledExpression;
}

export interface PreparedInputs {
  /** As written in the manifest. */
  readonly written: JsonObject;
  readonly template: CompiledTemplate;
  /** The rendered value, frozen, if it is the same in every context; otherwise undefined. */
  readonly constant: Json | undefined;
}

/** A context for templates that read nothing. */
export const NO_CONTEXT: ExpressionContext = { trigger: { body: null, headers: {}, key: '' }, steps: {} };

export function prepareRevision(
  manifest: Pick<Manifest, 'steps' | 'timeoutSeconds' | 'concurrency' | 'onFailure' | 'pinInputs' | 'serialize'>,
  source: ManifestSource,
  files: Readonly<Record<string, string>> = {},
): PreparedRevision {
  const prepared = prepareGraph(manifest.steps, { wired: wire(manifest.steps), isLoop: false, vars: varsIn(files) });
  return {
    graph: manifest.steps,
    source,
    entry: entryOf(manifest),
    onFailure: manifest.onFailure ?? null,
    pinsInputs: manifest.pinInputs === true,
    readOrderKey: manifest.serialize === undefined ? undefined : orderKeyReader(manifest.serialize),
    isLimited: manifest.concurrency !== undefined || limitsTypes(manifest.steps),
    step: (stepKey) => stepAt(prepared, stepKey),
  };
}

/** Where a run must wait; undefined if its flow lets runs overlap. `isTrusted` null: as for the run's source. */
export function orderOf(
  { readOrderKey }: Pick<PreparedRevision, 'readOrderKey'>,
  trigger: Parameters<NonNullable<PreparedRevision['readOrderKey']>>[0],
  isTrusted: boolean | null,
): RunOrder | undefined {
  return readOrderKey && { ...readOrderKey(trigger), isTrusted };
}

function limitsTypes(graph: Graph): boolean {
  return Object.values(graph).some(
    ({ concurrency, steps }) => concurrency !== undefined || (steps !== undefined && limitsTypes(steps)),
  );
}

interface Preparing {
  readonly wired: WiredGraph;
  readonly isLoop: boolean;
  readonly vars: Vars;
}

function prepareGraph(graph: Graph, { wired, isLoop, vars }: Preparing): PreparedGraph {
  const steps = Object.entries(graph);
  const first = steps.filter(([, { runAfter }]) => Object.keys(runAfter).length === 0).length;
  const prepare = ([stepKey, definition]: [string, StepDefinition]) => {
    const { downstream = [], steps: inner = {} } = wired[stepKey] ?? {};
    const followers = Math.max(downstream.length, isLoop ? first : 0);
    const isFailureHandled = downstream.some(([, { statuses }]) => statuses.includes('Failed'));
    return [stepKey, prepareStep(definition, { followers, isFailureHandled, inner, vars })];
  };
  return Object.fromEntries(steps.map(prepare));
}

function prepareStep(
  definition: StepDefinition,
  {
    inner,
    vars,
    ...own
  }: Pick<PreparedStep, 'followers' | 'isFailureHandled'> & {
    readonly inner: WiredGraph;
    readonly vars: Vars;
  },
): PreparedStep {
  const { runAfter, inputs, forEach = null, steps } = definition;
  return {
    definition,
    conditions: compiled(() =>
      Object.entries(runAfter).flatMap(([after, { when }]) =>
        when === undefined ? [] : [{ after, expression: compileCondition(when, 'step', vars) }],
      ),
    ),
    inputs: compiled(() => prepareInputs(inputs, vars)),
    items: steps && compiled(() => prepareInputs({ forEach }, vars)),
    steps: steps && prepareGraph(steps, { wired: inner, isLoop: true, vars }),
    ...own,
  };
}

function prepareInputs(written: JsonObject, vars: Vars): PreparedInputs {
  const template = compileTemplate(written, 'step', vars);
  return { written, template, constant: template.isConstant ? freezeJson(template.render(NO_CONTEXT)) : undefined };
}

/** Compiles now; throws an error to each caller. */
function compiled<Result>(compile: () => Result): () => Result {
  try {
    const result = compile();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** Freezes a JSON value with everything in it; a frozen value counts as completely frozen. */
export function freezeJson(value: Json): Json {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const item of Object.values(value)) freezeJson(item);
  return Object.freeze(value);
}
