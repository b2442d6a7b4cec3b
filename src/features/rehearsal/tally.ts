import type { Json } from '../../model/json.ts';
import type { Change, Difference } from './compare.ts';

/** Result of rehearsing one delivery. */
export interface Judged {
  readonly deliveryId: string;
  readonly receivedAt: number;
  readonly runId: string | null;
  /** Why it was not compared. */
  readonly skipped?: string | undefined;
  /** In order of the run; empty if the run would go as before. */
  readonly differences?: readonly Difference[];
  /** What has no known answer: step paths, or `gates: ` with the reason. */
  readonly unknown?: readonly string[];
}

export interface FlowRehearsal {
  readonly flowId: string;
  readonly name: string;
  /** The deployed revision. */
  readonly revision: number;
  /** Number of deliveries examined. */
  readonly deliveries: number;
  readonly same: number;
  readonly differing: number;
  /** Grouped by first difference, most frequent first. */
  readonly groups: readonly DifferenceGroup[];
  /** Deliveries that were not compared. */
  readonly skipped: readonly Counted[];
  /** Unknown parts of compared deliveries: calls without a known answer, and gates that could not judge again. */
  readonly unknown: readonly Counted[];
  /** Time ran out before all deliveries were examined. */
  readonly isStopped: boolean;
}

interface Counted {
  readonly what: string;
  readonly count: number;
  readonly deliveryIds: readonly string[];
}

interface DifferenceGroup {
  readonly kind: Difference['kind'];
  /** Path of the step, with `*` for iteration numbers; `gates` or `end` if the group concerns no step. */
  readonly at: string;
  /** Changed places of the request, or the outcome of the step before and after. */
  readonly what: readonly string[];
  readonly count: number;
  readonly deliveryIds: readonly string[];
  /** The first examples, in full. */
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
/** Paths in a request contain keys of a body, which can be long. */
const MAX_PLACE_CHARACTERS = 200;

/** Turns `each.0.call` into `each.*.call`. */
export function withoutIndexes(path: string): string {
  return path.replace(/\.\d+(?=\.)/g, '.*').replace(/#\d+(?=\/)/g, '');
}

/** Remaining room for examples, shared by all flows of a rehearsal. */
export interface ExampleRoom {
  characters: number;
}

/** Counts the results of rehearsed deliveries. Keeps nothing large, however many there are. */
export class Tally {
  readonly #room: ExampleRoom;
  readonly #groups = new Map<string, Group>();
  readonly #skips = new Map<string, string[]>();
  readonly #unknowns = new Map<string, string[]>();
  #deliveries = 0;
  #same = 0;

  constructor(room: ExampleRoom) {
    this.#room = room;
  }

  add({ differences = [], unknown = [], skipped, ...delivery }: Judged): void {
    this.#deliveries += 1;
    if (skipped !== undefined) note(this.#skips, skipped, delivery.deliveryId);
    for (const what of new Set(unknown)) note(this.#unknowns, what, delivery.deliveryId);
    const [first] = differences;
    if (first !== undefined) this.#putInGroup(first, { ...delivery, differences });
    else if (skipped === undefined) this.#same += 1;
  }

  result(about: Pick<FlowRehearsal, 'flowId' | 'name' | 'revision' | 'isStopped'>): FlowRehearsal {
    const groups = [...this.#groups.values()].map((group) => ({ ...group, count: group.deliveryIds.length }));
    return {
      ...about,
      deliveries: this.#deliveries,
      same: this.#same,
      differing: groups.reduce((sum, { count }) => sum + count, 0),
      groups: groups.sort((one, other) => other.count - one.count),
      skipped: countsOf(this.#skips),
      unknown: countsOf(this.#unknowns),
    };
  }

  #putInGroup(first: Difference, { differences, ...about }: Example): void {
    const [at, what] = [withoutIndexes(first.at), whatOf(first)];
    const key = JSON.stringify([first.kind, at, what]);
    const group = this.#groups.get(key) ?? { kind: first.kind, at, what, deliveryIds: [], examples: [] };
    this.#groups.set(key, group);
    group.deliveryIds.push(about.deliveryId);
    if (group.examples.length === MAX_EXAMPLES || this.#room.characters <= 0) return;
    const example = { ...about, differences: differences.slice(0, MAX_DIFFERENCES).map(cutDifference) };
    this.#room.characters -= JSON.stringify(example).length;
    group.examples.push(example);
  }
}

type Group = Omit<DifferenceGroup, 'count' | 'deliveryIds' | 'examples'> & {
  readonly deliveryIds: string[];
  readonly examples: Example[];
};

/** Whether a group may contain words of a delivery. */
export function isOfContents({ kind }: Pick<DifferenceGroup, 'kind'>): boolean {
  return kind === 'request' || kind === 'wait';
}

/** Identifies the group of a difference. Leaves out request values, because each delivery has its own. */
function whatOf({ kind, changes }: Difference): string[] {
  if (kind === 'request') return [...new Set(changes.map(placeOf))];
  return changes.map(({ before, after }) => cutText(`${textOf(before)} -> ${textOf(after)}`, MAX_VALUE_CHARACTERS));
}

function placeOf({ path, before, after }: Change): string {
  if (path !== '') return cutText(path.replace(/\[\d+\]/g, '[*]'), MAX_PLACE_CHARACTERS);
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
    path: cutText(path, MAX_PLACE_CHARACTERS),
    ...(before !== undefined && { before: cut(before) }),
    ...(after !== undefined && { after: cut(after) }),
  };
}

/** A large value is shortened to the beginning of its JSON. */
function cut(value: Json): Json {
  const text = JSON.stringify(value);
  return text.length <= MAX_VALUE_CHARACTERS ? value : cutText(text, MAX_VALUE_CHARACTERS);
}

/** Copied, because a slice would keep the whole text in memory. */
function cutText(text: string, characters: number): string {
  return text.length <= characters ? text : Buffer.from(`${text.slice(0, characters)}…`).toString();
}

function note(lists: Map<string, string[]>, what: string, deliveryId: string): void {
  lists.set(what, [...(lists.get(what) ?? []), deliveryId]);
}

function countsOf(lists: ReadonlyMap<string, readonly string[]>): Counted[] {
  return [...lists]
    .map(([what, ids]) => ({ what, count: ids.length, deliveryIds: ids.slice(0, MAX_NAMED) }))
    .sort((one, other) => other.count - one.count);
}
