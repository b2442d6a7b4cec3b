import type { CoalesceClaim, DeliveryRecord, SignalClaim } from '../../model/delivery.ts';
import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import type { Candidate } from '../decisions/acceptance.ts';
import { eventDigest, nonceAlias, nonceDigest } from '../digest.ts';
import {
  addValues,
  bodyDigestOf,
  DELIVERY_COLUMNS,
  deliveryRow,
  listOf,
  placesOf,
  RUN_COLUMNS,
  runRow,
  type SentValue,
  STEP_COLUMNS,
  stepRows,
} from '../new-rows.ts';
import type { Acceptance, BirthLease, EventClaim, NewRun, NonceClaim, SharedAcceptance } from '../store.ts';
import type { SentDelivery } from './deliveries.ts';

// No other process has the database, so that no lease needs an owner.
export const ownStepColumns = STEP_COLUMNS.filter((column) => column !== 'lease_owner');

/** A run in the writer, without its body. Rows are made by the caller's thread, which has more time. */
export type SentRun = readonly [
  row: readonly SentValue[],
  steps: readonly (readonly SentValue[])[],
  keys: readonly SearchKeyRow[],
  /** Flows that its steps run, and the revisions of those already pinned. */
  subFlows: NewRun['subFlows'],
  pins: NewRun['pins'],
  order: NewRun['order'],
  deliveriesOf: NewRun['deliveriesOf'],
];

export const RUN = placesOf(RUN_COLUMNS);

/** With its digests, which are made by the caller's thread. */
export interface SentNonce extends NonceClaim {
  readonly name: string;
  readonly alias: string | null;
}

export function sentNonce(trigger: Pick<Candidate, 'flowId' | 'triggerKey'>, nonce: NonceClaim): SentNonce {
  return { ...nonce, name: nonceDigest(trigger, nonce), alias: nonceAlias(trigger, nonce) };
}

const NONCE_FIELDS = [
  ...(['header', 'value', 'digest', 'arrivedAt', 'expiresAt', 'bodySha256'] as const),
  ...(['isVerified', 'isAsked', 'isEnforced', 'name', 'alias'] as const),
] as const satisfies readonly (keyof SentNonce)[];

type ValuesOf<Fields> = Fields extends readonly [infer Field extends keyof SentNonce, ...infer Others]
  ? readonly [SentNonce[Field], ...ValuesOf<Others>]
  : readonly [];

/** With its digest, as a nonce. */
export interface SentEvent extends EventClaim {
  readonly name: string;
}

/** What is the same of all acceptances; behind it come values of rows. */
type Front = readonly [
  steps: number,
  keys: number,
  /** Null where the delivery has those of its run. */
  ownKeys: number | null,
  hasDelivery: boolean,
  hasNonce: boolean,
  verifiedBy: string | null,
  bodySha256: string,
  isFiltered: boolean,
  event: SentEvent | undefined,
  coalesce: CoalesceClaim | undefined,
  signal: SignalClaim | undefined,
  subFlows: NewRun['subFlows'],
  pins: NewRun['pins'],
  order: NewRun['order'],
  deliveriesOf: NewRun['deliveriesOf'],
  shares: DeliveryRecord['shares'],
];

const FRONT_LENGTH = 16 satisfies Front['length'];

/**
 * An acceptance as it is sent to the writer, without its body: one list, since each list in another one costs both threads
 * 0.2 µs, and an acceptance has fifteen.
 */
export type SentAcceptance = readonly unknown[];

export function sentAcceptance(acceptance: Acceptance, lease?: BirthLease): SentAcceptance {
  const { delivery, nonce, verifiedBy, idempotencyKey, event, coalesce, signal, run } = acceptance;
  const steps = stepRows(run, lease);
  const keys = searchKeyRows(run.searchKeys);
  const ownKeys = delivery?.searchKeys === run.searchKeys ? undefined : searchKeyRows(delivery?.searchKeys);
  const front: Front = [
    steps.length,
    keys.length,
    ownKeys?.length ?? null,
    delivery !== undefined,
    nonce !== undefined,
    verifiedBy ?? null,
    bodyDigestOf(acceptance),
    acceptance.isFiltered === true,
    event && { ...event, name: eventDigest(run, event.id) },
    coalesce,
    signal,
    run.subFlows,
    run.pins,
    run.order,
    run.deliveriesOf,
    delivery?.shares,
  ];
  const sent: unknown[] = [...front];
  addValues(sent, RUN_COLUMNS, runRow(run, idempotencyKey ?? null));
  for (const step of steps) addValues(sent, ownStepColumns, step);
  for (const key of keys) sent.push(...key);
  if (delivery !== undefined) {
    addValues(sent, DELIVERY_COLUMNS, deliveryRow({ ...delivery, runId: run.id }, run.trigger.headers));
  }
  for (const key of ownKeys ?? []) sent.push(...key);
  if (nonce !== undefined) {
    const named = sentNonce(run, nonce);
    for (const field of NONCE_FIELDS) sent.push(named[field]);
  }
  return sent;
}

/** An acceptance as the writer reads it from its list. */
interface ReceivedAcceptance extends Pick<Candidate, 'verifiedBy' | 'bodySha256' | 'isFiltered' | 'signal'> {
  readonly run: SentRun;
  readonly delivery: SentDelivery | undefined;
  readonly nonce: SentNonce | undefined;
  readonly event: SentEvent | undefined;
  readonly coalesce: CoalesceClaim | undefined;
}

export function receivedAcceptance(sent: SentAcceptance): ReceivedAcceptance {
  const [steps, ofRun, own, hasDelivery, hasNonce, ...others] = sent.slice(0, FRONT_LENGTH) as unknown as Front;
  const [verifiedBy, bodySha256, isFiltered, event, coalesce, signal, ...further] = others;
  const [subFlows, pins, order, deliveriesOf, shares] = further;
  let at: number = FRONT_LENGTH;
  const next = <Values>(count: number) => {
    at += count;
    return sent.slice(at - count, at) as Values;
  };
  const list = <Item>(count: number, length: number) => {
    const items: Item[] = [];
    for (let left = count; left > 0; left -= 1) items.push(next<Item>(length));
    return items;
  };
  const row = next<readonly SentValue[]>(RUN_COLUMNS.length);
  const stepsOfRun = list<readonly SentValue[]>(steps, ownStepColumns.length);
  const keys = list<SearchKeyRow>(ofRun, 3);
  const deliveryValues = hasDelivery ? next<readonly SentValue[]>(DELIVERY_COLUMNS.length) : undefined;
  const ownKeys = own === null ? keys : list<SearchKeyRow>(own, 3);
  const nonce = hasNonce ? nonceOf(next<ValuesOf<typeof NONCE_FIELDS>>(NONCE_FIELDS.length)) : undefined;
  const delivery: SentDelivery | undefined = deliveryValues && [deliveryValues, ownKeys, shares];
  const run: SentRun = [row, stepsOfRun, keys, subFlows, pins, order, deliveriesOf];
  return { run, delivery, nonce, verifiedBy, bodySha256, isFiltered, event, coalesce, signal };
}

function nonceOf(values: ValuesOf<typeof NONCE_FIELDS>): SentNonce {
  const [header, value, digest, arrivedAt, expiresAt, bodySha256, isVerified, isAsked, isEnforced, name, alias] =
    values;
  return { header, value, digest, arrivedAt, expiresAt, bodySha256, isVerified, isAsked, isEnforced, name, alias };
}

/** A delivery to several triggers as it is sent to the writer, without its body. */
export type SentShared = readonly (readonly [sent: SentAcceptance, start: SharedAcceptance['start']])[];

export function sentShared(members: readonly SharedAcceptance[]): SentShared {
  return listOf(members, ({ acceptance, start, lease }) => [sentAcceptance(acceptance, lease), start] as const);
}
