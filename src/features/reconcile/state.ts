import { z } from 'zod';
import { DAY_MS } from '../../model/clock.ts';
import type { Json } from '../../model/json.ts';

const gapSchema = z.object({
  /** Deliveries that were fetched and accepted. */
  count: z.number(),
  /** When the publisher sent the first and the last of them. */
  from: z.number(),
  to: z.number(),
  /** When the first and the last were fetched. */
  foundAt: z.number(),
  lastAt: z.number(),
  /** What the publisher says became of them, with the number of those. */
  causes: z.record(z.string(), z.number()),
  /** Those that could not be accepted, and why the last one. */
  refused: z.number(),
  refusedFor: z.string().nullable(),
  /** Those that the log had and that could never be fetched. */
  givenUp: z.number().default(0),
});

/** What was lost in one go, as far as it was found. */
export type Gap = Readonly<z.output<typeof gapSchema>>;

/** A delivery that was sent and lost, and whose contents could not be had so far. */
const undecidedSchema = z.object({
  id: z.string(),
  sentAt: z.number(),
  /** What its publisher says became of it. */
  cause: z.string(),
  /** To ask whether it arrived after all, also where the log no longer has it. */
  names: z.object({
    eventId: z.string().optional(),
    nonce: z.object({ header: z.string(), value: z.string() }).optional(),
  }),
  /** When it was asked for in vain for the first time, how often since then, and why the last time. */
  since: z.number(),
  tries: z.number(),
  why: z.string(),
  /** Not asked for before. */
  nextAt: z.number(),
  /** Since when the log lists it no more; null while it does. */
  missingSince: z.number().nullable(),
  /** Set once it is given up: the record that says so has this id and time, however often its writing begins. */
  record: z.object({ id: z.string(), at: z.number() }).nullable(),
});

export type Undecided = Readonly<z.output<typeof undecidedSchema>>;

const stateSchema = z.object({
  /** What was sent before is none of this trigger's business: nobody knew events by the same name then. */
  since: z.number(),
  /** Names the log and the identity of events since then. */
  log: z.string(),
  /** All that was sent until then is settled; null where no look has ended yet. */
  settledTo: z.number().nullable(),
  /** Not asked before, because the publisher said so. */
  notBefore: z.number().nullable(),
  /** Why the log could not be asked the last time, and since when. */
  failure: z.object({ kind: z.string(), message: z.string(), since: z.number() }).nullable(),
  gap: gapSchema.nullable(),
  /** Deliveries whose contents could not be had: they are asked for again, after all others. */
  undecided: z.array(undecidedSchema).default([]),
  /** When the first delivery was sent that a look listed and left, and that is not among the undecided. */
  openFrom: z.number().nullable().default(null),
  /** What was refused under this revision: the next one tries again. */
  refused: z.object({ revision: z.number(), items: z.array(z.object({ id: z.string(), sentAt: z.number() })) }),
});

/** What the replicas know together of one trigger's log. */
export type ReconcileState = Readonly<z.output<typeof stateSchema>>;

const OTHER_LOG = 'its trigger is reconciled with another log since then';

/** What is stored, if it is about the same log; else a beginning. */
export function stateOf(
  stored: Json,
  { log, since, now }: { readonly log: string; readonly since: number; readonly now: number },
): ReconcileState {
  const { data } = stateSchema.safeParse(stored);
  if (data?.log === log) return ofThePast(data, now);
  const refused = { revision: 0, items: [] };
  return {
    since: Math.min(since, now),
    log,
    settledTo: null,
    notBefore: null,
    failure: null,
    gap: data?.gap ?? null,
    // Only the log of before has them.
    undecided: data?.undecided.map((each) => ({ ...each, missingSince: 0, why: OTHER_LOG })) ?? [],
    openFrom: null,
    refused,
  };
}

/** A clock that was ahead once must not keep a log from being asked until it is so late. */
function ofThePast(state: ReconcileState, now: number): ReconcileState {
  const { since, settledTo, undecided } = state;
  const isAhead = settledTo !== null && settledTo > now;
  return {
    ...state,
    since: Math.min(since, now),
    settledTo: isAhead ? null : settledTo,
    undecided: undecided.map((each) => ({ ...each, nextAt: Math.min(each.nextAt, now + DAY_MS) })),
  };
}

/** What an operator is told of a trigger's log; undefined for what no release wrote. */
export function readReconcileState(stored: Json): Pick<ReconcileState, 'failure' | 'gap' | 'undecided'> | undefined {
  return stateSchema.safeParse(stored).data;
}

/** A gap that was found so long after the last one is another. */
const APART_MS = 3_600_000;
/** Causes that are named; more have no common one. */
const MOST_CAUSES = 5;

interface Found {
  readonly sentAt: number;
  readonly at: number;
  readonly cause: string;
  readonly became: 'accepted' | 'refused' | 'givenUp';
  /** Why it was refused. */
  readonly refusedFor?: string | undefined;
}

/** The gap with one more delivery that was found missing. */
export function widened(gap: Gap | null, { sentAt, at, cause, became, refusedFor }: Found): Gap {
  const isSame = gap !== null && at - gap.lastAt <= APART_MS;
  const none = { count: 0, causes: {}, refused: 0, refusedFor: null, givenUp: 0 };
  const before = isSame ? gap : { ...none, from: sentAt, to: sentAt, foundAt: at, lastAt: at };
  // A publisher may name one as every object has a property.
  const counts = new Map(Object.entries(before.causes));
  const named = counts.has(cause) || counts.size < MOST_CAUSES ? cause : 'other';
  const causes = Object.fromEntries(counts.set(named, (counts.get(named) ?? 0) + 1));
  return {
    ...before,
    causes,
    count: before.count + Number(became === 'accepted'),
    refused: before.refused + Number(became === 'refused'),
    givenUp: before.givenUp + Number(became === 'givenUp'),
    refusedFor: refusedFor ?? before.refusedFor,
    from: Math.min(before.from, sentAt),
    to: Math.max(before.to, sentAt),
    lastAt: at,
  };
}
