import type { Json } from '../model/json.ts';
import type { Change, Difference } from './compare.ts';

/** What the rehearsal of one delivery found. */
export interface Judged {
  readonly deliveryId: string;
  readonly receivedAt: number;
  readonly runId: string | null;
  /** Why it was not compared. */
  readonly skipped?: string | undefined;
  /** In the order in which they come; empty where it would go as before. */
  readonly differences?: readonly Difference[];
  /** Of what the answer is not known: paths of steps, or `gates: ` and why. */
  readonly unknown?: readonly string[];
}

export interface FlowRehearsal {
  readonly flowId: string;
  readonly name: string;
  /** The deployed one. */
  readonly revision: number;
  /** Those that were looked at. */
  readonly deliveries: number;
  readonly same: number;
  readonly differing: number;
  /** By the first difference, the most frequent first. */
  readonly groups: readonly DifferenceGroup[];
  /** Deliveries that were not compared. */
  readonly skipped: readonly Counted[];
  /** Of what was compared: calls without a known answer, and gates that could not be judged again. */
  readonly unknown: readonly Counted[];
  /** The time was over before all of them were looked at. */
  readonly isStopped: boolean;
}

interface Counted {
  readonly what: string;
  readonly count: number;
  readonly deliveryIds: readonly string[];
}

export interface DifferenceGroup {
  readonly kind: Difference['kind'];
  /** Path of the step, `*` for the numbers of iterations; `gates` and `end` where it is of none. */
  readonly at: string;
  /** Places of the request, or what became of the step before and after. */
  readonly what: readonly string[];
  readonly count: number;
  readonly deliveryIds: readonly string[];
  /** The first of them in full. */
  readonly examples: readonly Example[];
}

interface Example {
  readonly deliveryId: string;
  readonly runId: string | null;
  readonly receivedAt: number;
  readonly differences: readonly Difference[];
}

const MAX_NAMED = 5;
const MAX_EXAMPLES = 3;
const MAX_DIFFERENCES = 10;
const MAX_VALUE_CHARACTERS = 2000;

/** `each.*.call` of `each.0.call`. */
export function withoutIndexes(path: string): string {
  return path.replace(/\.\d+(?=\.)/g, '.*').replace(/#\d+(?=\/)/g, '');
}

/** Counts what the rehearsals of deliveries found. */
export function tallyOf(
  judged: readonly Judged[],
  about: Pick<FlowRehearsal, 'flowId' | 'name' | 'revision' | 'isStopped'>,
): FlowRehearsal {
  const byGroup = new Map<string, Group>();
  const skips = new Map<string, string[]>();
  const unknowns = new Map<string, string[]>();
  let same = 0;
  for (const { differences = [], unknown = [], skipped, ...delivery } of judged) {
    if (skipped !== undefined) note(skips, skipped, delivery.deliveryId);
    for (const what of new Set(unknown)) note(unknowns, what, delivery.deliveryId);
    const [first] = differences;
    if (first !== undefined) putInGroup(byGroup, first, { ...delivery, differences });
    else if (skipped === undefined) same += 1;
  }
  const groups = [...byGroup.values()].map((group) => ({ ...group, count: group.deliveryIds.length }));
  return {
    ...about,
    deliveries: judged.length,
    same,
    differing: groups.reduce((sum, { count }) => sum + count, 0),
    groups: groups.sort((one, other) => other.count - one.count),
    skipped: countsOf(skips),
    unknown: countsOf(unknowns),
  };
}

function putInGroup(groups: Map<string, Group>, first: Difference, { differences, ...about }: Example): void {
  const [at, what] = [withoutIndexes(first.at), whatOf(first)];
  const key = JSON.stringify([first.kind, at, what]);
  const group = groups.get(key) ?? { kind: first.kind, at, what, deliveryIds: [], examples: [] };
  groups.set(key, group);
  group.deliveryIds.push(about.deliveryId);
  if (group.examples.length === MAX_EXAMPLES) return;
  group.examples.push({ ...about, differences: differences.slice(0, MAX_DIFFERENCES).map(cutDifference) });
}

type Group = Omit<DifferenceGroup, 'count' | 'deliveryIds' | 'examples'> & {
  readonly deliveryIds: string[];
  readonly examples: Example[];
};

/** Whether what a group tells of may be a delivery's words. */
export function isOfContents({ kind }: Pick<DifferenceGroup, 'kind'>): boolean {
  return kind === 'request' || kind === 'wait';
}

/** What of a difference makes a group: not the values, which each delivery has its own of. */
function whatOf({ kind, changes }: Difference): string[] {
  if (kind === 'request') return [...new Set(changes.map(placeOf))];
  return changes.map(({ before, after }) => `${textOf(before)} -> ${textOf(after)}`);
}

function placeOf({ path, before, after }: Change): string {
  if (path !== '') return path.replace(/\[\d+\]/g, '[*]');
  if (after === undefined) return 'not sent any more';
  return before === undefined ? 'sent anew' : 'another one';
}

function textOf(value: Json | undefined): string {
  if (value === undefined) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function cutDifference({ changes, ...difference }: Difference): Difference {
  return { ...difference, changes: changes.map(cutChange) };
}

function cutChange({ path, before, after }: Change): Change {
  return {
    path,
    ...(before !== undefined && { before: cut(before) }),
    ...(after !== undefined && { after: cut(after) }),
  };
}

/** A large value as the beginning of its text. */
function cut(value: Json): Json {
  const text = JSON.stringify(value);
  return text.length <= MAX_VALUE_CHARACTERS ? value : `${text.slice(0, MAX_VALUE_CHARACTERS)}…`;
}

function note(lists: Map<string, string[]>, what: string, deliveryId: string): void {
  lists.set(what, [...(lists.get(what) ?? []), deliveryId]);
}

function countsOf(lists: ReadonlyMap<string, readonly string[]>): Counted[] {
  return [...lists]
    .map(([what, ids]) => ({ what, count: ids.length, deliveryIds: ids.slice(0, MAX_NAMED) }))
    .sort((one, other) => other.count - one.count);
}
