import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import { eventDigest, nonceAlias, nonceDigest } from '../digest.ts';
import {
  candidateOf,
  DELIVERY_COLUMNS,
  deliveryRow,
  listOf,
  placesOf,
  RUN_COLUMNS,
  runRow,
  type SentValue,
  STEP_COLUMNS,
  stepRows,
  valuesOf,
} from '../new-rows.ts';
import type { Acceptance, BirthLease, Candidate, EventClaim, NewRun, NonceClaim, SharedAcceptance } from '../store.ts';
import type { SentDelivery } from './deliveries.ts';

// No other process has the database, so leases need no owner.
export const ownStepColumns = STEP_COLUMNS.filter((column) => column !== 'lease_owner');

/** A run as sent to the writer, without its body. The caller's thread makes the rows, since it has more time. */
export type SentRun = readonly [
  row: readonly SentValue[],
  steps: readonly (readonly SentValue[])[],
  keys: readonly SearchKeyRow[],
  deliveriesOf: NewRun['deliveriesOf'],
];

export const RUN = placesOf(RUN_COLUMNS);

/** With its digests, made by the caller's thread. */
export interface SentNonce extends NonceClaim {
  readonly name: string;
  readonly alias: string | null;
}

export function sentNonce(trigger: Pick<Candidate, 'flowId' | 'triggerKey'>, nonce: NonceClaim): SentNonce {
  return { ...nonce, name: nonceDigest(trigger, nonce), alias: nonceAlias(trigger, nonce) };
}

/** With its digest, like a nonce. */
export interface SentEvent extends EventClaim {
  readonly name: string;
}

/** An acceptance as it is sent to the writer, without its body. */
export interface SentAcceptance extends Omit<Candidate, 'body'> {
  readonly run: SentRun;
  readonly delivery: SentDelivery | undefined;
  readonly nonce: SentNonce | undefined;
  readonly event: SentEvent | undefined;
}

export function sentAcceptance(acceptance: Acceptance, lease?: BirthLease): SentAcceptance {
  const { body: _, nonce, event, ...candidate } = candidateOf(acceptance);
  const { delivery, run } = acceptance;
  const keys = searchKeyRows(run.searchKeys);
  return {
    ...candidate,
    nonce: nonce && sentNonce(run, nonce),
    event: event && { ...event, name: eventDigest(run, event.id) },
    run: sentRun(run, { idempotencyKey: candidate.idempotencyKey, keys, lease }),
    delivery: delivery && [
      valuesOf(DELIVERY_COLUMNS, deliveryRow({ ...delivery, runId: run.id }, run.trigger.headers)),
      delivery.searchKeys === run.searchKeys ? keys : searchKeyRows(delivery.searchKeys),
      delivery.shares,
    ],
  };
}

interface GivenRows {
  readonly idempotencyKey: string | null;
  readonly keys: readonly SearchKeyRow[];
  readonly lease: BirthLease | undefined;
}

function sentRun(run: NewRun, { idempotencyKey, keys, lease }: GivenRows): SentRun {
  const steps = listOf(stepRows(run, lease), (step) => valuesOf(ownStepColumns, step));
  return [valuesOf(RUN_COLUMNS, runRow(run, idempotencyKey)), steps, keys, run.deliveriesOf];
}

/** A delivery to several triggers as it is sent to the writer, without its body. */
export type SentShared = readonly (readonly [sent: SentAcceptance, start: SharedAcceptance['start']])[];

export function sentShared(members: readonly SharedAcceptance[]): SentShared {
  return listOf(members, ({ acceptance, start, lease }) => [sentAcceptance(acceptance, lease), start] as const);
}
