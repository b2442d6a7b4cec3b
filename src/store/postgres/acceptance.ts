import { StoreUnavailableError } from '../../errors.ts';
import { waitingRun } from '../../model/run.ts';
import { searchKeyRows } from '../../model/text.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import {
  type AcceptanceRows,
  accept,
  asReplay,
  type FlowRows,
  type Member,
  sharingFlowRows,
} from '../decisions/acceptance.ts';
import { awaited, decide, known } from '../decisions/decision.ts';
import { takePlaces } from '../decisions/delivery-places.ts';
import { flowsAt, lockFlows, shareFlows } from '../decisions/flows.ts';
import { hold } from '../decisions/held-acceptance.ts';
import {
  keepHeaders,
  listTriggerKeys,
  type NonceName,
  newHeaders,
  nonceExpiry,
  otherNames,
  type TriggerKey,
} from '../decisions/nonce-names.ts';
import { sharedPinRows } from '../decisions/pins.ts';
import type { Held, Places } from '../decisions/placer.ts';
import { lockPlaces } from '../decisions/placing.ts';
import { answerBy } from '../decisions/port.ts';
import { acceptShared } from '../decisions/shared-acceptance.ts';
import { digestOf, eventDigest, nonceAlias, nonceDigest } from '../digest.ts';
import { candidateOf, runRow } from '../new-rows.ts';
import type {
  Acceptance,
  AcceptResult,
  BirthLease,
  Candidate,
  FlowRecord,
  HoldResult,
  SharedAcceptance,
  SharedResult,
} from '../store.ts';
import { areAccepted, type NameRow, Names } from './names.ts';
import { NewRows } from './new-rows.ts';
import type { Operations } from './operation.ts';
import { jsonRows, type Sql } from './sql.ts';

export const acceptanceOperations: Operations<'accept' | 'acceptShared' | 'holdDelivery' | 'areAccepted'> = {
  areAccepted: { purpose: 'read', run: ({ port }, query) => decide(areAccepted(port, query)) },
  accept: { purpose: 'accept', run: acceptOne },
  acceptShared: {
    purpose: 'write',
    changes: (_, result) =>
      (result.kind === 'shared' ? result.outcomes : [])
        .filter(({ kind }) => kind === 'held')
        .map(({ flowId }) => ({ kind: 'flow', flowId })),
    run: acceptSharedOne,
  },
  holdDelivery: {
    purpose: 'write',
    changes: ({ run }, { kind }) => (kind === 'held' ? [{ kind: 'flow', flowId: run.flowId }] : []),
    run: holdDelivery,
  },
};

export interface GivenAcceptance {
  readonly acceptance: Acceptance;
  readonly lease?: BirthLease | undefined;
}

/** A delivery to several triggers, none of which holds it. */
export interface GivenShared {
  readonly members: readonly SharedAcceptance[];
}

async function acceptOne(sql: Sql, acceptance: Acceptance, lease?: BirthLease): Promise<AcceptResult> {
  const [result] = await acceptAll(sql, [{ acceptance, lease }]);
  if (result === undefined || !isAlone(result)) throw new Error('The acceptance has no result.');
  return result;
}

/** Whether this is the result of a delivery to one trigger. */
export function isAlone(result: AcceptResult | SharedResult): result is AcceptResult {
  return result.kind !== 'shared' && result.kind !== 'repeated' && !('flowId' in result);
}

/**
 * Accepts many in one transaction, each as if those before it were stored. A few statements read what all of them need,
 * each decision uses these answers, one after the other, and a few statements write the results.
 */
export async function acceptAll(
  sql: Sql,
  given: readonly (GivenAcceptance | GivenShared)[],
): Promise<(AcceptResult | SharedResult)[]> {
  const each = given.map((one) =>
    'members' in one ? { members: one.members.map(sharedCall) } : { call: callOf(one) },
  );
  const calls = each.flatMap(({ members, call }) =>
    call === undefined ? members.map((member) => member.call) : [call],
  );
  const [flows, names, bySlug] = await Promise.all([
    decide(
      shareFlows(
        sql.port,
        calls.map(({ flowId }) => flowId),
      ),
    ),
    ClaimedNames.take(sql, calls),
    flowsBySlug(sql, calls),
  ]);
  const places = await decide(takePlaces(sql.port, calls));
  const written = new NewRows(sql);
  const rows = acceptanceRows(sql, { flows: flowRowsOf(flows), names, places, written });
  await lockOrders(sql, rows, calls);
  const results: (AcceptResult | SharedResult)[] = [];
  for (const { members, call } of each) {
    const own = members?.map((member) => member.call) ?? (call === undefined ? [] : [call]);
    const stale = findStale(own, { flows, bySlug });
    if (stale !== undefined) results.push({ kind: 'outdated', ...(members && { flowId: stale.flowId }) });
    else if (call !== undefined) results.push(await decide(accept(rows, call)));
    else {
      const sharing = { port: sql.port, flows: rows, bounds: sql.bounds.held, rowsOf: () => known(rows) };
      results.push(notFull(await decide(acceptShared(members, sharing))));
    }
  }
  names.settle(sql);
  written.write();
  for (const place of places) place.settle();
  return results;
}

type Flows = ReadonlyMap<string, FlowRecord>;

/** All flows that may have a claim to the deliveries, read after the flows that take them are shared or locked. */
async function flowsBySlug(
  sql: Sql,
  calls: readonly AcceptCall[],
): Promise<ReadonlyMap<string, readonly FlowRecord[]>> {
  const slugs = new Set(calls.flatMap(({ acceptance: { judgedBy } }) => judgedBy?.slug ?? []));
  return slugs.size === 0 ? new Map() : decide(flowsAt(sql.port, [...slugs]));
}

/** A call whose delivery was judged by facts that another process changed since, or whose slug another flow has got. */
function findStale(
  calls: readonly AcceptCall[],
  { flows, bySlug }: { readonly flows: Flows; readonly bySlug: ReadonlyMap<string, readonly FlowRecord[]> },
): AcceptCall | undefined {
  return calls.find(({ flowId, acceptance: { judgedBy } }) => {
    const stored = judgedBy && [flows.get(flowId) ?? [], bySlug.get(judgedBy.slug) ?? []].flat();
    return stored?.some((flow) => !judgedBy?.isCurrent(flow));
  });
}

/** The same check for deliveries that may be held, in a transaction of their own. */
async function isStale(sql: Sql, calls: readonly AcceptCall[]): Promise<boolean> {
  const ids = calls.map(({ flowId }) => flowId);
  const [flows, bySlug] = await Promise.all([decide(lockFlows(sql.port, ids)), flowsBySlug(sql, calls)]);
  return findStale(calls, { flows, bySlug }) !== undefined;
}

async function lockOrders(
  { port }: Sql,
  rows: AcceptanceRows<AcceptCall>,
  calls: readonly AcceptCall[],
): Promise<void> {
  const joining = calls.filter(({ order }) => order !== undefined).map((call) => ({ ...call, id: call.runId }));
  if (joining.length > 0) await decide(lockPlaces(rows, joining));
  port.answering?.lock(port, calls);
}

function sharedCall({ acceptance, start, lease }: SharedAcceptance): Member<AcceptCall> {
  const call = callOf({ acceptance, lease });
  return { call, start, held: start === 'later' ? heldOf(call) : undefined };
}

function heldOf({ acceptance: { run }, idempotencyKey, nonce }: AcceptCall): Held {
  return {
    run: runRow(run, idempotencyKey),
    keys: searchKeyRows(run.searchKeys),
    body: run.trigger.body,
    isTrusted: nonce?.isTrusted === true,
  };
}

function notFull<Result>(result: Result | 'full'): Result {
  if (result === 'full') throw new StoreUnavailableError('the limit of held deliveries is reached');
  return result;
}

/** Accepts a delivery that some triggers hold: locks their flows one after the other, before it claims names. */
async function acceptSharedOne(sql: Sql, given: readonly SharedAcceptance[]): Promise<SharedResult> {
  const members = given.map(sharedCall);
  const calls = members.map(({ call }) => call);
  const [first] = calls;
  if (first !== undefined && (await isStale(sql, calls))) return { kind: 'outdated', flowId: first.flowId };
  const written = new NewRows(sql);
  const flows = sharingFlowRows(sql.port);
  let names: ClaimedNames | undefined;
  const claimNames = async () => {
    names = await ClaimedNames.take(sql, calls);
    // A delivery to several triggers joins no run.
    const rows = acceptanceRows(sql, { flows, names, places: [], written });
    await lockOrders(sql, rows, calls);
    return rows;
  };
  const sharing = { port: sql.port, flows, bounds: sql.bounds.held, rowsOf: () => awaited(claimNames()) };
  const result = notFull(await decide(acceptShared(members, sharing)));
  names?.settle(sql);
  written.write();
  return result;
}

async function holdDelivery(sql: Sql, acceptance: Acceptance): Promise<HoldResult> {
  const call = callOf({ acceptance });
  if (await isStale(sql, [call])) return { kind: 'outdated' };
  const held = heldOf(call);
  const written = new NewRows(sql);
  let names: ClaimedNames | undefined;
  let places: readonly Places[] = [];
  const claimNames = async () => {
    names = await ClaimedNames.take(sql, [call]);
    places = await decide(takePlaces(sql.port, [call]));
    return acceptanceRows(sql, { flows: sharingFlowRows(sql.port), names, places, written });
  };
  const rowsOf = () => awaited(claimNames());
  const result = notFull(await decide(hold(sql.port, call, { held, bounds: sql.bounds.held, rowsOf })));
  names?.settle(sql);
  written.write();
  for (const place of places) place.settle();
  return result;
}

interface ClaimedRow extends NameRow {
  readonly run_id: string;
  readonly flow_id: string;
  readonly trigger_key: string;
}

interface NonceRow extends Omit<ClaimedRow, 'run_id'> {
  /** Null if the delivery was filtered. */
  readonly run_id: string | null;
  readonly is_verified: boolean;
  readonly header: string;
  readonly nonce: string;
  readonly alias: string | null;
  readonly body_sha256: string;
  readonly expires_at: number;
  /** Absent until it is stored: it comes after all stored rows. */
  readonly seq?: number;
}

interface KeyRow extends ClaimedRow {
  readonly key: string;
  readonly body_sha256: string;
  readonly created_at: number;
}

interface EventRow extends ClaimedRow {
  readonly event_id: string;
  readonly created_at: number;
  readonly expires_at: number;
}

interface RedeliveryRow extends NameRow {
  readonly run_id: string;
  readonly delivery_id: string;
}

/** An acceptance with rows for the names that it asks for. */
interface AcceptCall extends Candidate, GivenAcceptance {
  readonly redeliveryRow: RedeliveryRow | undefined;
  readonly nonceRow: NonceRow | undefined;
  readonly keyRow: KeyRow | undefined;
  readonly eventRow: EventRow | undefined;
}

function callOf({ acceptance, lease }: GivenAcceptance): AcceptCall {
  const candidate = candidateOf(acceptance);
  const { runId, flowId, triggerKey, redeliveredFrom, nonce, idempotencyKey, bodySha256, event, startedAt } = candidate;
  const { delivery, run } = acceptance;
  const claimed = { flow_id: flowId, trigger_key: triggerKey, run_id: runId };
  return {
    ...candidate,
    acceptance,
    lease,
    redeliveryRow:
      delivery === undefined || redeliveredFrom === null
        ? undefined
        : { digest: redeliveredFrom, run_id: runId, delivery_id: delivery.id },
    nonceRow: nonce && {
      ...claimed,
      digest: nonceDigest(run, nonce),
      is_verified: nonce.isTrusted,
      header: nonce.header,
      nonce: nonce.value,
      alias: nonceAlias(run, nonce),
      body_sha256: nonce.bodySha256,
      expires_at: nonceExpiry(nonce),
    },
    keyRow:
      idempotencyKey === null
        ? undefined
        : {
            ...claimed,
            digest: digestOf(flowId, triggerKey, idempotencyKey),
            key: idempotencyKey,
            body_sha256: bodySha256,
            created_at: startedAt,
          },
    eventRow: event && {
      ...claimed,
      digest: eventDigest(run, event.id),
      event_id: event.id,
      created_at: startedAt,
      expires_at: event.expiresAt,
    },
  };
}

const triggerOf = ({ flowId, triggerKey }: Pick<Candidate, 'flowId' | 'triggerKey'>) => `${flowId}\n${triggerKey}`;

/** The names that the calls of one transaction claim. */
class ClaimedNames {
  readonly redeliveries = new Names<RedeliveryRow>('redeliveries');
  readonly nonces = new Names<NonceRow>('nonces');
  readonly keys = new Names<KeyRow>('idempotency_keys');
  readonly events = new Names<EventRow>('event_ids');
  readonly #triggerKeys = new Map<string, readonly TriggerKey[]>();
  readonly #others = new Map<AcceptCall, readonly NonceName[]>();
  readonly #byAlias = new Map<string, NonceRow[]>();
  readonly #headers = new Map<string, Parameters<typeof keepHeaders>[1][number]>();

  /**
   * Claims one kind after the other, in this order everywhere, and then locks texts that may be known under other
   * names. If two transactions still block each other, PostgreSQL ends one of them, and that one is tried again.
   */
  static async take(sql: Sql, calls: readonly AcceptCall[]): Promise<ClaimedNames> {
    const names = new ClaimedNames();
    await Promise.all([
      names.#askTriggerKeys(sql, calls),
      names.redeliveries.take(sql, present(calls.map(({ redeliveryRow }) => redeliveryRow))),
      names.nonces.take(sql, present(calls.map(({ nonceRow }) => nonceRow))),
      names.keys.take(sql, present(calls.map(({ keyRow }) => keyRow))),
      names.events.take(sql, present(calls.map(({ eventRow }) => eventRow))),
    ]);
    await names.#askOtherNames(sql, calls);
    return names;
  }

  triggerKeysOf(call: AcceptCall): readonly TriggerKey[] {
    return this.#triggerKeys.get(triggerOf(call)) ?? [];
  }

  /** Finds the nonce under its own name, or under another that also counts. */
  findNonce(call: AcceptCall): NonceRow | undefined {
    const { nonceRow, nonce } = call;
    if (nonceRow === undefined || nonce === undefined) return undefined;
    const counts = (row: NonceRow | undefined, lastSeq: number | null = null) =>
      row !== undefined &&
      row.expires_at > nonce.arrivedAt &&
      (lastSeq === null || (row.seq ?? Number.POSITIVE_INFINITY) <= lastSeq);
    const own = this.nonces.find(nonceRow.digest);
    if (counts(own)) return own;
    // Computed again if an earlier call kept a nonce under another header.
    const others = this.#headers.size === 0 ? this.#others.get(call) : otherNames(call, this.#keysNow(call));
    for (const { digest, nonce: value, lastSeq } of others ?? []) {
      const rows = value === null ? this.#byAlias.get(digest) : [this.nonces.find(digest)];
      const found = rows?.find((row) => counts(row, lastSeq));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  keepNonce(call: AcceptCall, row: NonceRow): void {
    const { flowId, triggerKey } = call;
    for (const used of newHeaders(call, this.#keysNow(call))) {
      this.#headers.set(`${triggerOf(call)}\n${used.header}`, { flowId, triggerKey, ...used });
    }
    const known = this.nonces.find(row.digest);
    // No gate asks for this nonce now. The stored one lives on, and is left as it is if it lives nearly as long.
    if (call.nonce?.isAsked === false && known !== undefined && known.expires_at > call.nonce.arrivedAt) {
      if (known.expires_at < call.nonce.expiresAt) this.nonces.prolong(known, row.expires_at);
      return;
    }
    this.nonces.keep(row);
    this.#addAlias(row);
  }

  settle(sql: Sql): void {
    for (const names of [this.redeliveries, this.nonces, this.keys, this.events]) names.settle(sql);
    if (this.#headers.size > 0) keepHeaders(sql.port, [...this.#headers.values()]);
  }

  /** Includes the headers that calls of this transaction have used. */
  #keysNow(call: AcceptCall): readonly TriggerKey[] {
    const keys = this.triggerKeysOf(call);
    if (this.#headers.size === 0) return keys;
    return keys.map((key) => {
      const own = [...this.#headers.values()].filter((used) => sameTrigger(used, key));
      return { ...key, headers: [...key.headers, ...own] };
    });
  }

  #addAlias(row: NonceRow): void {
    if (row.alias !== null) this.#byAlias.set(row.alias, [...(this.#byAlias.get(row.alias) ?? []), row]);
  }

  async #askTriggerKeys(sql: Sql, calls: readonly AcceptCall[]): Promise<void> {
    const triggers = [
      ...new Map(
        calls
          .filter(({ nonceRow, keyRow, eventRow }) => nonceRow ?? keyRow ?? eventRow)
          .map((call) => [triggerOf(call), call]),
      ),
    ];
    if (triggers.length === 0) return;
    const keys = await decide(
      listTriggerKeys(
        sql.port,
        triggers.map(([, call]) => call),
      ),
    );
    for (const [at, [trigger]] of triggers.entries()) this.#triggerKeys.set(trigger, keys[at] ?? []);
  }

  /**
   * Locks texts until the transaction ends: of two transactions that claim the same texts under different names, the
   * later finds what the earlier one stored. Except if one has the header that their trigger names and the other lacks
   * it, while no nonce without it is alive: the one with the header locks no text.
   */
  async #askOtherNames(sql: Sql, calls: readonly AcceptCall[]): Promise<void> {
    const texts: string[] = [];
    const asked: (NonceName & { readonly arrivedAt: number })[] = [];
    const keys: string[] = [];
    const events: string[] = [];
    for (const call of calls) {
      const { nonce, idempotencyKey, event } = call;
      const others = otherNames(call, this.triggerKeysOf(call));
      this.#others.set(call, others);
      if (nonce !== undefined && others.length > 0) {
        for (const other of others) asked.push({ ...other, arrivedAt: nonce.arrivedAt });
        texts.push(nonce.value, nonce.digest);
        if (nonce.covers !== undefined) texts.push(nonce.covers.bodySha256);
      }
      const [, ...former] = this.triggerKeysOf(call);
      if (former.length === 0) continue;
      if (idempotencyKey !== null) {
        texts.push(idempotencyKey);
        for (const { flowId, triggerKey } of former) keys.push(digestOf(flowId, triggerKey, idempotencyKey));
      }
      if (event !== undefined) {
        texts.push(event.id);
        for (const key of former) events.push(eventDigest(key, event.id));
      }
    }
    if (texts.length === 0) return;
    sql.later(
      `SELECT pg_advisory_xact_lock(hashtextextended('sluice claim ' || digest, sluice_lock_scope))
      FROM unnest($1::text[]) AS digest`,
      [[...new Set(texts.map((text) => digestOf(text)))].sort()],
    );
    await Promise.all([
      this.nonces.read(
        sql,
        asked.filter(({ nonce }) => nonce !== null).map(({ digest }) => digest),
      ),
      this.#readByAlias(
        sql,
        asked.filter(({ nonce }) => nonce === null),
      ),
      this.keys.read(sql, keys),
      this.events.read(sql, events),
    ]);
  }

  /** Reads hour by hour, like the index; one row for each name, however often the same bytes came. */
  async #readByAlias(sql: Sql, asked: readonly (NonceName & { readonly arrivedAt: number })[]): Promise<void> {
    if (asked.length === 0) return;
    const given = asked.map(({ digest, arrivedAt, lastSeq, until }) => ({
      digest,
      alive_at: arrivedAt,
      last_seq: lastSeq,
      lasts_until: until,
    }));
    const rows = await sql.all<NonceRow>(
      `SELECT n.* FROM jsonb_to_recordset($1) AS given (digest uuid, alive_at bigint, last_seq bigint, lasts_until bigint)
      CROSS JOIN LATERAL (
        SELECT n.digest, n.alias, n.run_id, n.body_sha256, n.expires_at, n.seq
        FROM generate_series(alive_at / 3600000, lasts_until / 3600000) AS hour
          JOIN sluice.nonces AS n ON n.expires_at / 3600000 = hour AND n.alias = given.digest
        WHERE n.expires_at > alive_at AND (last_seq IS NULL OR n.seq <= last_seq) LIMIT 1
      ) AS n`,
      [jsonRows(given)],
    );
    for (const row of rows) this.#addAlias(row);
  }
}

function present<Value>(values: readonly (Value | undefined)[]): Value[] {
  return values.filter((value) => value !== undefined);
}

/** Rows of flows that this transaction has shared or locked. */
function flowRowsOf(flows: Flows): FlowRows {
  return {
    shareFlow: (flowId) => known(flows.get(flowId)),
  };
}

interface Transaction {
  readonly flows: FlowRows;
  readonly names: ClaimedNames;
  readonly places: readonly Places[];
  readonly written: NewRows;
}

function acceptanceRows(sql: Sql, { flows, names, places, written }: Transaction): AcceptanceRows<AcceptCall> {
  const { redeliveries, keys, events } = names;
  return {
    ...flows,
    ...sharedPinRows(sql.port),
    count: sql.port.count,
    places,
    findRedelivery: ({ redeliveryRow }) => known(redeliveryRow && redeliveries.find(redeliveryRow.digest)?.run_id),
    findNonce(call) {
      const first = names.findNonce(call);
      const isOwn = first?.digest === call.nonceRow?.digest;
      return known(first && { runId: first.run_id, bodySha256: first.body_sha256, isOwn });
    },
    findKey(call) {
      const { idempotencyKey, keyRow } = call;
      if (idempotencyKey === null || keyRow === undefined) return known(undefined);
      const rows = names.triggerKeysOf(call).map(({ flowId, triggerKey, reusedAt }) => {
        const row = keys.find(digestOf(flowId, triggerKey, idempotencyKey));
        return reusedAt === null || (row !== undefined && row.created_at < reusedAt) ? row : undefined;
      });
      const first = rows.find((row) => row !== undefined);
      return known(first && { runId: first.run_id, bodySha256: first.body_sha256 });
    },
    findEvent(call) {
      const { event } = call;
      if (event === undefined) return known(undefined);
      const counts = ({ expires_at, created_at }: EventRow, reusedAt: number | null) =>
        expires_at > event.arrivedAt && (reusedAt === null || created_at < reusedAt);
      for (const key of names.triggerKeysOf(call)) {
        const row = events.find(eventDigest(key, event.id));
        if (row !== undefined && counts(row, key.reusedAt)) return known(row.run_id);
      }
      return known(undefined);
    },
    answer: (call) => awaited(decide(answerBy(sql.port, call))),
    keepRedelivery({ redeliveryRow }, runId) {
      if (redeliveryRow !== undefined) redeliveries.keep(ofRun(redeliveryRow, runId));
    },
    keepNonce(call, runId) {
      if (call.nonceRow !== undefined) names.keepNonce(call, ofRun(call.nonceRow, runId));
    },
    keepKey({ keyRow }, runId) {
      if (keyRow !== undefined) keys.keep(ofRun(keyRow, runId));
    },
    keepEvent({ eventRow }, runId) {
      if (eventRow !== undefined) events.keep(ofRun(eventRow, runId));
    },
    keepDelivery({ runId: ownRunId, acceptance: { delivery, run } }, { runId, isReplay, outcome, shares }) {
      if (delivery === undefined) return;
      const kept = { ...delivery, ...(isReplay && asReplay(delivery)), ...(outcome && { outcome }), runId, shares };
      if (runId === ownRunId) written.addDelivery({ ...kept, searchKeys: undefined }, null);
      else written.addDelivery(kept, outcome === 'coalesced' ? null : run.trigger.body);
    },
    keepRun({ acceptance: { run }, idempotencyKey, lease }, { pins, isWaiting }) {
      const pinned = pins === undefined ? run : { ...run, pins };
      written.addRun(isWaiting ? waitingRun(pinned) : pinned, { idempotencyKey, lease });
    },
  };
}

/** The same, stored row if it names the run already. */
function ofRun<Row extends NameRow, RunId extends Row['run_id']>(row: Row, runId: RunId): Row {
  return row.run_id === runId ? row : { ...row, run_id: runId };
}
