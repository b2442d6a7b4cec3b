import { z } from 'zod';
import type { Json } from '../model/json.ts';

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
});

/** What was lost in one go, as far as it was found. */
export type Gap = Readonly<z.output<typeof gapSchema>>;

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
  /** What was refused under this revision: the next one tries again. */
  refused: z.object({ revision: z.number(), items: z.array(z.object({ id: z.string(), sentAt: z.number() })) }),
});

/** What the replicas know together of one trigger's log. */
export type ReconcileState = Readonly<z.output<typeof stateSchema>>;

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
    refused,
  };
}

/** A clock that was ahead once must not keep a log from being asked until it is so late. */
function ofThePast(state: ReconcileState, now: number): ReconcileState {
  const { since, settledTo } = state;
  return { ...state, since: Math.min(since, now), settledTo: settledTo !== null && settledTo > now ? null : settledTo };
}

/** What an operator is told of a trigger's log; undefined for what no release wrote. */
export function readReconcileState(stored: Json): Pick<ReconcileState, 'failure' | 'gap'> | undefined {
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
  /** Undefined where it was accepted. */
  readonly refusedFor?: string | undefined;
}

/** The gap with one more delivery that was found missing. */
export function widened(gap: Gap | null, { sentAt, at, cause, refusedFor }: Found): Gap {
  const isSame = gap !== null && at - gap.lastAt <= APART_MS;
  const before = isSame
    ? gap
    : { count: 0, from: sentAt, to: sentAt, foundAt: at, lastAt: at, causes: {}, refused: 0, refusedFor: null };
  // A publisher may name one as every object has a property.
  const counts = new Map(Object.entries(before.causes));
  const named = counts.has(cause) || counts.size < MOST_CAUSES ? cause : 'other';
  const causes = Object.fromEntries(counts.set(named, (counts.get(named) ?? 0) + 1));
  const isAccepted = refusedFor === undefined;
  return {
    ...before,
    causes,
    count: before.count + Number(isAccepted),
    refused: before.refused + Number(!isAccepted),
    refusedFor: refusedFor ?? before.refusedFor,
    from: Math.min(before.from, sentAt),
    to: Math.max(before.to, sentAt),
    lastAt: at,
  };
}
