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
  /** Why they were lost according to the publisher, with counts. */
  causes: z.record(z.string(), z.number()),
  /** Deliveries that could not be accepted, and the reason for the last one. */
  refused: z.number(),
  refusedFor: z.string().nullable(),
  /** Deliveries in the log that could never be fetched. */
  givenUp: z.number().default(0),
});

/** Deliveries lost together, as far as they were found. */
export type Gap = Readonly<z.output<typeof gapSchema>>;

/** A lost delivery whose contents could not be fetched so far. */
const undecidedSchema = z.object({
  id: z.string(),
  sentAt: z.number(),
  /** Why it was lost according to the publisher. */
  cause: z.string(),
  /** Names to check whether it arrived after all, even if the log no longer has it. */
  names: z.object({
    eventId: z.string().optional(),
    nonce: z.object({ header: z.string(), value: z.string() }).optional(),
  }),
  /** When it was first asked for in vain, how often since, and why the last request failed. */
  since: z.number(),
  tries: z.number(),
  why: z.string(),
  /** Not to be asked for before this time. */
  nextAt: z.number(),
  /** Since when the log no longer lists it; null while it does. */
  missingSince: z.number().nullable(),
  /** Set once it is given up: its record has this id and time, even if writing the record starts several times. */
  record: z.object({ id: z.string(), at: z.number() }).nullable(),
});

export type Undecided = Readonly<z.output<typeof undecidedSchema>>;

const stateSchema = z.object({
  /** Earlier deliveries do not concern this trigger: their events were not yet known by the same name. */
  since: z.number(),
  /** Identifies the log and the event identity used since then. */
  log: z.string(),
  /** Everything sent until then is settled; null until a look has ended. */
  settledTo: z.number().nullable(),
  /** Not to be asked before this time, because the publisher said so. */
  notBefore: z.number().nullable(),
  /** Why the last request to the log failed, and since when. */
  failure: z.object({ kind: z.string(), message: z.string(), since: z.number() }).nullable(),
  gap: gapSchema.nullable(),
  /** Deliveries whose contents could not be fetched: asked for again, after all others. */
  undecided: z.array(undecidedSchema).default([]),
  /** Send time of the first delivery that a look listed but did not fetch, and that is not among the undecided. */
  openFrom: z.number().nullable().default(null),
  /** Deliveries refused under this revision; the next revision tries them again. */
  refused: z.object({ revision: z.number(), items: z.array(z.object({ id: z.string(), sentAt: z.number() })) }),
});

/** What all replicas know of one trigger's log. */
export type ReconcileState = Readonly<z.output<typeof stateSchema>>;

const OTHER_LOG = 'its trigger is reconciled with another log since then';

/** The stored state if it is of the same log; else a fresh state. */
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
    // Only the former log has them.
    undecided: data?.undecided.map((each) => ({ ...each, missingSince: 0, why: OTHER_LOG })) ?? [],
    openFrom: null,
    refused,
  };
}

/** A clock that was once ahead must not delay the next request until then. */
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

/** What operators see of a trigger's log; undefined if no release wrote the value. */
export function readReconcileState(stored: Json): Pick<ReconcileState, 'failure' | 'gap' | 'undecided'> | undefined {
  return stateSchema.safeParse(stored).data;
}

/** A gap found this long after the last one is a new gap. */
const APART_MS = 3_600_000;
/** Number of causes counted by name; the rest are counted together. */
const MOST_CAUSES = 5;

interface Found {
  readonly sentAt: number;
  readonly at: number;
  readonly cause: string;
  readonly became: 'accepted' | 'refused' | 'givenUp';
  /** Why it was refused. */
  readonly refusedFor?: string | undefined;
}

/** The gap including one more missing delivery. */
export function widened(gap: Gap | null, { sentAt, at, cause, became, refusedFor }: Found): Gap {
  const isSame = gap !== null && at - gap.lastAt <= APART_MS;
  const none = { count: 0, causes: {}, refused: 0, refusedFor: null, givenUp: 0 };
  const before = isSame ? gap : { ...none, from: sentAt, to: sentAt, foundAt: at, lastAt: at };
  // A map, because a publisher's cause may have the name of an object's property.
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
