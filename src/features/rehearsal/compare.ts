import { formatPath } from '../../expressions/json-path.ts';
import { differences } from '../../manifest/diff.ts';
import { isSame, type Json } from '../../model/json.ts';
import type { AnsweredRun } from './answered.ts';
import type { Call } from './calls.ts';
import type { RecordedRun } from './recorded.ts';
import type { ReachedStep } from './simulator.ts';

/** Kinds of differences between two runs of one delivery. */
export const DIFFERENCE_KINDS = ['gates', 'step', 'request', 'wait', 'end'] as const;

export interface Difference {
  readonly kind: (typeof DIFFERENCE_KINDS)[number];
  /** Path of the step; `gates` or `end` if the difference concerns no step. */
  readonly at: string;
  readonly changes: readonly Change[];
}

/** One changed place in a value; a side without this place is absent. */
export interface Change {
  /** Such as `body.amount`; empty for the whole value. */
  readonly path: string;
  readonly before?: Json;
  readonly after?: Json;
}

/** Changes shown of one difference. */
const MAX_CHANGES = 20;

/**
 * Differences between two simulated runs of one delivery, in the order of the first run. Anything unknown in either run
 * is not a difference.
 */
export function compareRuns(before: AnsweredRun, after: AnsweredRun): Difference[] {
  const [one, other] = [before, after].map(seenOf) as [Seen, Seen];
  const found: Difference[] = [];
  for (const path of inOneOrder([...one.steps.keys()], [...other.steps.keys()])) found.push(...at(path, one, other));
  if (one.isWhole && other.isWhole && before.run.status !== after.run.status) {
    found.push({ kind: 'end', at: 'end', changes: [{ path: '', before: before.run.status, after: after.run.status }] });
  }
  return found;
}

/** The known parts of a run, by path. */
interface Seen {
  /** How each step ended; undefined if unknown. */
  readonly steps: ReadonlyMap<string, string | undefined>;
  readonly calls: ReadonlyMap<string, readonly Call[]>;
  readonly waits: ReadonlyMap<string, readonly Json[]>;
  /** Nothing of the run is unknown. */
  readonly isWhole: boolean;
}

function seenOf({ steps, calls, waits, unanswered, stoppedBy }: AnsweredRun): Seen {
  const isWhole = unanswered.length === 0 && stoppedBy === null;
  return {
    // A step that has not ended may be waiting for something unknown.
    steps: new Map(steps.map(({ path, step }) => [path, isWhole || hasEnded(step) ? endOf(step) : undefined])),
    calls: byPath(calls, (call) => call),
    waits: byPath(waits, ({ kind, signal, ms }): Json => ({ kind, signal, ms })),
    isWhole,
  };
}

/** How a step ended, in one or two words. */
export function endOf({ status, error }: Pick<ReachedStep['step'], 'status' | 'error'>): string {
  return error === null ? status : `${status}: ${error.code}`;
}

const hasEnded = ({ status }: ReachedStep['step']) => status !== 'Pending' && status !== 'Running';

function byPath<Item extends { readonly path: string }, Made>(
  items: readonly Item[],
  make: (item: Item) => Made,
): Map<string, Made[]> {
  const lists = new Map<string, Made[]>();
  for (const item of items) lists.set(item.path, [...(lists.get(item.path) ?? []), make(item)]);
  return lists;
}

function at(path: string, one: Seen, other: Seen): Difference[] {
  const found: Difference[] = [];
  const [isIn, isInOther] = [one.steps.has(path), other.steps.has(path)];
  if (!isIn || !isInOther) {
    // The step might follow from an unknown answer.
    if (!(isIn ? other : one).isWhole) return [];
    const [before, after] = [one, other].map(
      ({ steps }) => steps.get(path) ?? (steps.has(path) ? 'not known' : undefined),
    );
    return [{ kind: 'step', at: path, changes: [statusChange(before, after)] }];
  }
  const [status, otherStatus] = [one.steps.get(path), other.steps.get(path)];
  const isKnown = status !== undefined && otherStatus !== undefined;
  const [calls, others] = [one.calls.get(path) ?? [], other.calls.get(path) ?? []];
  for (let index = 0; index < Math.max(calls.length, others.length); index += 1) {
    const [call, another] = [calls[index], others[index]];
    // Whether a step would have called again is unknown, too.
    if ((call === undefined || another === undefined) && !isKnown) break;
    const changes = changesOf(shownCall(call), shownCall(another));
    if (changes.length > 0) found.push({ kind: 'request', at: path, changes });
  }
  if (!isKnown) return found;
  if (status !== otherStatus) found.push({ kind: 'step', at: path, changes: [statusChange(status, otherStatus)] });
  const [waits, otherWaits] = [one.waits.get(path) ?? [], other.waits.get(path) ?? []];
  if (!isSame(waits, otherWaits)) {
    found.push({ kind: 'wait', at: path, changes: changesOf([...waits], [...otherWaits]) });
  }
  return found;
}

const statusChange = (before = 'not reached', after = 'not reached'): Change => ({ path: '', before, after });

/** The request; for operator code, its inputs. */
function shownCall(call: Call | undefined): Json | undefined {
  if (call === undefined) return undefined;
  const { type, input, request } = call;
  return request === null ? { type, inputs: input } : ({ ...request } as Json);
}

function changesOf(before: Json | undefined, after: Json | undefined): Change[] {
  if (before === undefined || after === undefined) {
    if (before === after) return [];
    return [{ path: '', ...(before !== undefined && { before }), ...(after !== undefined && { after }) }];
  }
  return differences(before, after)
    .slice(0, MAX_CHANGES)
    .map(({ at: place, kind: _, ...change }) => ({ path: formatPath(place), ...change }));
}

/** The first paths in their order; each path found only in the second follows its predecessor there. */
function inOneOrder(first: readonly string[], second: readonly string[]): string[] {
  const known = new Set(first);
  const behind = new Map<string, string[]>();
  let last = '';
  for (const path of second) {
    if (known.has(path)) last = path;
    else behind.set(last, [...(behind.get(last) ?? []), path]);
  }
  return ['', ...first].flatMap((path) => [...(path === '' ? [] : [path]), ...(behind.get(path) ?? [])]);
}

/**
 * The path of the first step at which a simulated run departs from the recorded one, as far as both are known;
 * undefined if there is none.
 */
export function departureOf(
  recorded: Pick<RecordedRun, 'run' | 'ends' | 'isWhole'>,
  simulated: AnsweredRun,
): string | undefined {
  const { steps, isWhole } = seenOf(simulated);
  for (const [path, { status, code }] of recorded.ends) {
    const end = code === null ? status : `${status}: ${code}`;
    const own = steps.get(path);
    if (steps.has(path) ? own !== undefined && own !== end : isWhole) return path;
  }
  if (!recorded.isWhole || recorded.run.status === 'Running') return undefined;
  return [...steps.keys()].find((path) => !recorded.ends.has(path));
}
