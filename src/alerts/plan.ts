import type { AlertEvent, AlertTarget } from './targets.ts';

/** Something that a target may be told of. */
export interface Thing {
  /** Names it: what has the same key is the same thing. */
  readonly key: string;
  readonly event: AlertEvent;
  /** The flow that it belongs to, by id and name. */
  readonly flow: { readonly id: string; readonly name: string } | null;
  /** One sentence. */
  readonly text: string;
  /** Path of the page that shows it. */
  readonly link: string | null;
  /** How often it happened. */
  readonly count: number;
  /** What happened if it is counted, in the plural: "runs of orders failed". */
  readonly what: string;
  /** Path of the page that shows all that were counted; `link` where not given. */
  readonly allLink?: string | undefined;
}

interface Line {
  readonly text: string;
  readonly link: string | null;
}

/** What is known between two looks; kept in the store, as JSON. */
export interface AlertState {
  /** Things that happened and were told, by key: when, and how often since. */
  readonly told: Readonly<Record<string, ToldThing>>;
  /** Conditions that last, by key: when they were told, and since when they are gone. */
  readonly lasting: Readonly<Record<string, { readonly at: number; readonly goneAt: number | null }>>;
  /** What each target has yet to be told, and its last message. */
  readonly targets: Readonly<Record<string, TargetState>>;
}

interface ToldThing extends Omit<Thing, 'text' | 'count'> {
  readonly at: number;
  readonly more: number;
}

interface TargetState {
  readonly sentAt: number | null;
  readonly runId: string | null;
  readonly lines: readonly Line[];
  readonly more: number;
}

export const NO_ALERTS: AlertState = { told: {}, lasting: {}, targets: {} };

interface Situation {
  readonly state: AlertState;
  /** What happened since the last look. */
  readonly happened: readonly Thing[];
  /** What lasts now; undefined where that is unknown. */
  readonly lasting: readonly Thing[] | undefined;
  readonly targets: readonly AlertTarget[];
  readonly repeatMs: number;
  readonly now: number;
  /** Of the run that tells a target. */
  readonly newId: () => string;
}

interface Planned {
  readonly state: AlertState;
  /** What each target is told now: one message at most. */
  readonly messages: readonly {
    readonly target: string;
    readonly runId: string;
    readonly lines: readonly Line[];
    readonly more: number;
  }[];
}

/** Lines of one message; the others are counted. */
const MOST_LINES = 10;
/** Things that are remembered; beyond it the oldest are forgotten, and so may be told again too early. */
const MOST_THINGS = 2000;
/** A condition that lasts is told again after a day. */
const REMIND_MS = 86_400_000;

/**
 * Decides which alerts to send now, and what to remember. Pure, so that a replica can plan again if another one was
 * faster.
 *
 * The same problem is reported once within `repeatMs`; further occurrences are counted and reported afterwards. A
 * target gets at most one message per interval: later alerts are collected into its next message, ten lines and a
 * number. So time limits the number of messages, whatever happens.
 */
export function planAlerts({ state, happened, lasting, targets, repeatMs, now, newId }: Situation): Planned {
  const news: Thing[] = [];
  const told = new Map(Object.entries(state.told));
  const isOver = (at: number, ms: number) => now - at >= ms || at > now;
  for (const thing of happened) {
    const known = told.get(thing.key);
    if (known !== undefined && !isOver(known.at, repeatMs)) {
      told.set(thing.key, { ...known, more: known.more + thing.count });
      continue;
    }
    if (known !== undefined && known.more > 0) news.push(summaryOf(known));
    news.push(thing);
    told.set(thing.key, toldNow(thing, now));
  }
  for (const [key, known] of told) {
    if (!isOver(known.at, repeatMs)) continue;
    told.delete(key);
    if (known.more === 0) continue;
    news.push(summaryOf(known));
    told.set(key, { ...known, at: now, more: 0 });
  }
  const conditions = new Map(Object.entries(state.lasting));
  for (const thing of lasting ?? []) {
    const known = conditions.get(thing.key);
    if (known === undefined || isOver(known.at, REMIND_MS)) {
      news.push(thing);
      conditions.set(thing.key, { at: now, goneAt: null });
    } else if (known.goneAt !== null) conditions.set(thing.key, { ...known, goneAt: null });
  }
  const present = lasting && new Set(lasting.map(({ key }) => key));
  for (const [key, known] of conditions) {
    if (present === undefined || present.has(key)) continue;
    // One that comes back soon is the same one.
    if (known.goneAt === null) conditions.set(key, { ...known, goneAt: now });
    else if (isOver(known.goneAt, repeatMs)) conditions.delete(key);
  }
  const messages: Planned['messages'][number][] = [];
  const queues = targets.map((target): [string, TargetState] => {
    const queue = queued(state.targets[target.name] ?? EMPTY, news, target);
    const { lines, more, sentAt } = queue;
    if (lines.length === 0 || (sentAt !== null && !isOver(sentAt, target.intervalSeconds * 1000))) {
      return [target.name, queue];
    }
    const runId = newId();
    messages.push({ target: target.name, runId, lines, more });
    return [target.name, { sentAt: now, runId, lines: [], more: 0 }];
  });
  const kept = (entries: Iterable<[string, { at: number }]>) =>
    Object.fromEntries([...entries].sort(([, one], [, other]) => other.at - one.at).slice(0, MOST_THINGS));
  return {
    state: {
      told: kept(told) as AlertState['told'],
      lasting: kept(conditions) as AlertState['lasting'],
      targets: Object.fromEntries(queues),
    },
    messages,
  };
}

const EMPTY: TargetState = { sentAt: null, runId: null, lines: [], more: 0 };

function toldNow({ text: _text, count, ...thing }: Thing, now: number): ToldThing {
  return { ...thing, at: now, more: 0 };
}

function summaryOf({ at, more, ...thing }: ToldThing): Thing {
  const text = `${more} more ${thing.what} since ${new Date(at).toISOString().slice(0, 16)}Z`;
  return { ...thing, text, count: more, link: thing.allLink ?? thing.link };
}

function queued(queue: TargetState, news: readonly Thing[], target: AlertTarget): TargetState {
  const own = news.filter((thing) => wants(target, thing));
  if (own.length === 0) return queue;
  const lines = [...queue.lines, ...own.map(({ text, link }) => ({ text, link }))];
  return { ...queue, lines: lines.slice(0, MOST_LINES), more: queue.more + Math.max(0, lines.length - MOST_LINES) };
}

/** Whether a target is to be told of a thing. */
export function wants({ events, flows }: AlertTarget, { event, flow }: Pick<Thing, 'event' | 'flow'>): boolean {
  if (!events.includes(event)) return false;
  if (flows === undefined) return true;
  return flow !== null && flows.some((each) => each.toLowerCase() === flow.id || each === flow.name);
}
