import { type CompiledExpression, compileExpression } from '../../expressions/compile.ts';
import { formatPath, type JsonPath, type OpenPath } from '../../expressions/json-path.ts';
import { hasPlaceholder } from '../../expressions/template.ts';
import type { DeployedFlow } from '../../flows/catalog.ts';
import type { PreparedStep } from '../../flows/prepared-revision.ts';
import { keyReaderOf } from '../../manifest/trigger-objects.ts';
import type { WebhookTrigger } from '../../manifest/webhook-inputs.ts';
import { inOrder } from '../../model/graph.ts';
import { PATH_USES, type PathUse } from './paths.ts';
import { isWithin, type PathRead, pathsRead } from './payload-paths.ts';

/** A path of a trigger's body or headers that a flow reads. */
export interface PayloadRead {
  /** As people read it, and as it is stored: `body.order.id`, `body.items[].sku`, `headers.x-github-event`. */
  readonly text: string;
  readonly path: OpenPath;
  readonly use: PathUse;
  /** The first place in the manifest that reads it. */
  readonly at: string;
}

/** Watched paths of one flow: each is counted by the hour. */
const MOST_PATHS = 64;
/** A longer path is not watched, because it is part of a row's key. */
const MOST_CHARACTERS = 200;

const known = new WeakMap<DeployedFlow['prepared'], readonly PayloadRead[]>();

/** The paths of the body and the headers that the steps of a flow read. */
export function stepReads({ loaded, prepared }: Pick<DeployedFlow, 'loaded' | 'prepared'>): readonly PayloadRead[] {
  const reads = known.get(prepared) ?? joined(readsOfSteps(loaded.manifest.steps, prepared));
  known.set(prepared, reads);
  return reads;
}

/** The paths that the search keys of a trigger read. */
export function keyReads(trigger: WebhookTrigger): readonly PayloadRead[] {
  const place = formatPath(['triggers', trigger.triggerKey, 'searchKeys']);
  const keys = keyReaderOf(trigger)?.expressions.map((source) => compileExpression(source, 'delivery')) ?? [];
  return joined(keys.flatMap((key) => payloadReads(pathsRead(key).reads, undefined, place)));
}

/** Each path once, with its strongest use; a conditional read is optional if some read tests the path. */
export function joined(reads: readonly PayloadRead[]): readonly PayloadRead[] {
  const byText = new Map<string, PayloadRead>();
  const asked = reads.filter(({ use }) => use === 'optional').map(({ path }) => path);
  for (const read of reads) {
    const isAsked = read.use === 'conditional' && asked.some((path) => isWithin(read.path, path));
    const use = isAsked ? 'optional' : read.use;
    const before = byText.get(read.text);
    const isStronger = before === undefined || PATH_USES.indexOf(use) < PATH_USES.indexOf(before.use);
    if (isStronger) byText.set(read.text, { ...read, use, at: before?.at ?? read.at });
  }
  return [...byText.values()].slice(0, MOST_PATHS);
}

function readsOfSteps(
  steps: DeployedFlow['loaded']['manifest']['steps'],
  prepared: Pick<DeployedFlow['prepared'], 'step'>,
): PayloadRead[] {
  const top = Object.keys(steps).flatMap((key): [string, PreparedStep][] => {
    const step = prepared.step(key);
    return step === undefined ? [] : [[key, step]];
  });
  return readsOfGraph(Object.fromEntries(top), { at: ['steps'], use: 'required', item: undefined });
}

interface GraphPlace {
  readonly at: JsonPath;
  readonly use: PathUse;
  /** The path behind `loop.item`. */
  readonly item: PathRead | undefined;
}

function readsOfGraph(steps: Readonly<Record<string, PreparedStep>>, place: GraphPlace): PayloadRead[] {
  const graph = Object.fromEntries(Object.entries(steps).map(([key, { definition }]) => [key, definition]));
  const uses = new Map<string, PathUse>();
  const useOf = (key: string): PathUse => uses.get(key) ?? 'conditional';
  for (const key of inOrder(graph)) {
    // A step that follows others under a condition, or only after they failed, may not run.
    const isSure = Object.entries(graph[key]?.runAfter ?? {}).every(
      ([after, { when, statuses }]) =>
        when === undefined && statuses.includes('Succeeded') && useOf(after) === 'required',
    );
    uses.set(key, isSure ? place.use : 'conditional');
  }
  return Object.entries(steps).flatMap(([key, step]) => readsOfStep(step, { ...place, key, useOf }));
}

function readsOfStep(
  step: PreparedStep,
  { at, item, key, useOf }: GraphPlace & { readonly key: string; readonly useOf: (key: string) => PathUse },
): PayloadRead[] {
  const own = [...at, key];
  const use = useOf(key);
  const conditions = compiledOf(() => step.conditions()) ?? [];
  const inputs = compiledOf(() => step.inputs());
  const items = step.items === undefined ? undefined : compiledOf(step.items);
  const reads = [
    ...conditions.flatMap(({ after, expression }) =>
      readsOf(expression, { item, use: useOf(after), at: [...own, 'runAfter', after, 'when'] }),
    ),
    ...(inputs?.template.expressions ?? []).flatMap((each) =>
      readsOf(each.expression, { item, use, at: [...own, 'inputs', ...each.at] }),
    ),
    ...(items?.template.expressions ?? []).flatMap((each) =>
      readsOf(each.expression, { item, use, at: [...own, ...each.at] }),
    ),
  ];
  if (step.steps === undefined) return reads;
  const children = { at: [...own, 'steps'], use, item: itemOf(items, item) };
  return [...reads, ...readsOfGraph(step.steps, children)];
}

/** A revision of an earlier release can hold an expression that no longer compiles: its step fails with that error. */
function compiledOf<Value>(compile: () => Value): Value | undefined {
  try {
    return compile();
  } catch {
    return undefined;
  }
}

/** The path of a loop's items, if its list is a single path. */
function itemOf(items: ReturnType<NonNullable<PreparedStep['items']>> | undefined, outer: PathRead | undefined) {
  const [only, ...others] = items?.template.expressions ?? [];
  const written = items?.written.forEach;
  if (only === undefined || others.length > 0 || typeof written !== 'string' || !hasPlaceholder(written)) return;
  const { value } = pathsRead(only.expression);
  const list = value && fromDelivery(value, outer);
  return list && { path: [...list.path, null], use: list.use };
}

function readsOf(
  expression: CompiledExpression,
  { item, use, at }: { readonly item: PathRead | undefined; readonly use: PathUse; readonly at: JsonPath },
): PayloadRead[] {
  const { reads } = pathsRead(expression);
  return payloadReads(
    reads.map((read) => (read.use === 'required' ? { ...read, use } : read)),
    item,
    formatPath(at),
  );
}

function payloadReads(reads: readonly PathRead[], item: PathRead | undefined, at: string): PayloadRead[] {
  return reads.flatMap((read) => {
    const found = fromDelivery(read, item);
    // The body and the headers themselves are always there.
    if (found === undefined || found.path.length < 2) return [];
    const text = formatPath(found.path);
    return text.length > MOST_CHARACTERS ? [] : [{ text, at, ...found }];
  });
}

/** The same path, starting at the body or the headers; undefined if it leads elsewhere. */
function fromDelivery({ path, use }: PathRead, item: PathRead | undefined): PathRead | undefined {
  const [root, second] = path;
  if (root === 'body' || root === 'headers') return { path, use };
  if (root === 'trigger' && (second === 'body' || second === 'headers')) return { path: path.slice(1), use };
  if (root !== 'loop' || second !== 'item' || item === undefined) return undefined;
  return { path: [...item.path, ...path.slice(2)], use };
}
