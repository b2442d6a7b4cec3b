import { digestOf } from '../digest.ts';
import type { Acceptance, AcceptResult, BirthLease, Pins } from '../store.ts';
import { arrivalOf, claimedTexts, type FormerKey, listFormerKeys, lockTexts, nonceName } from './acceptance.ts';
import { LOCK_OF_FLOW } from './flows.ts';
import { NewRows } from './new-rows.ts';
import { jsonRows, type Sql } from './sql.ts';
import { pinsFor } from './sub-runs.ts';

export interface AcceptCall {
  readonly acceptance: Acceptance;
  readonly lease?: BirthLease | undefined;
}

/**
 * Accepts many at once, with one statement that decides and a few that write. Undefined for an acceptance that needs more
 * than that, of which nothing is stored: one that is a replay, a redelivery or not the first of its idempotency key.
 */
export async function acceptAll(
  sql: Sql,
  calls: readonly AcceptCall[],
): Promise<readonly (AcceptResult | undefined)[]> {
  const wanted = claimsOf(calls);
  const claims = [...wanted.values()];
  const decided = await decideAll(sql, claims);
  const renamed = firstsOf(
    claims.filter(({ n }) => decided.get(n)?.isRenamed === true),
    calls,
  );
  for (const [n, decision] of await decideRenamed(sql, renamed)) decided.set(n, decision);
  const rows = new NewRows();
  const unused: string[] = [];
  // By their lists of flows: runs of one revision have the same.
  const pins = new Map<readonly string[], Pins>();
  for (const { acceptance } of calls) {
    const { subFlows } = acceptance.run;
    if (subFlows !== undefined && !pins.has(subFlows)) pins.set(subFlows, await pinsFor(sql, subFlows));
  }
  const results = calls.map((call, n): AcceptResult | undefined => {
    const claim = wanted.get(n);
    if (claim === undefined) return undefined;
    const decision = decided.get(n);
    if (decision === undefined) return { kind: 'outdated' };
    if (!decision.hasNonce && decision.hasKey && claim.key !== null) unused.push(claim.key);
    if (!decision.hasNonce || !decision.hasKey) return undefined;
    keep(rows, call, pins);
    return { kind: 'accepted', runId: call.acceptance.run.id, isReplay: false };
  });
  if (unused.length > 0) sql.later('DELETE FROM sluice.idempotency_keys WHERE key = ANY($1)', [unused]);
  rows.write(sql);
  return results;
}

function keep(rows: NewRows, { acceptance, lease }: AcceptCall, pins: ReadonlyMap<readonly string[], Pins>): void {
  const { delivery, run, idempotencyKey, verifiedBy } = acceptance;
  if (delivery !== undefined) {
    rows.addDelivery({ ...delivery, runId: run.id, searchKeys: undefined }, null);
    if (verifiedBy !== undefined) rows.counters.keyUsed(delivery, run, verifiedBy);
  }
  rows.addRun(run.subFlows === undefined ? run : { ...run, pins: pins.get(run.subFlows) }, { idempotencyKey, lease });
}

/** What an acceptance asks for, as columns. */
interface Claim {
  readonly n: number;
  readonly flow_id: string;
  readonly trigger_key: string;
  readonly revision: number;
  readonly run_id: string;
  readonly started_at: number;
  readonly arrived_at: number;
  readonly key: string | null;
  readonly nonce: string | null;
  readonly nonce_name: string | null;
  readonly body_sha256: string | null;
  readonly expires_at: number | null;
}

/** Of acceptances that ask for the same nonce or idempotency key only the first takes part: the others come after it. */
function claimsOf(calls: readonly AcceptCall[]): ReadonlyMap<number, Claim> {
  const taken = new Set<string>();
  const claims = new Map<number, Claim>();
  for (const [n, { acceptance }] of calls.entries()) {
    const { delivery, nonce, idempotencyKey, run } = acceptance;
    if (delivery?.redeliveredFrom !== undefined) continue;
    const key = idempotencyKey === undefined ? null : digestOf(run.flowId, run.triggerKey, idempotencyKey);
    const nonceKey = nonce === undefined ? null : digestOf(run.flowId, run.triggerKey, nonce.value);
    const names = [key && `key ${key}`, nonceKey && `nonce ${nonceKey}`].filter((name) => name !== null);
    if (names.some((name) => taken.has(name))) continue;
    for (const name of names) taken.add(name);
    claims.set(n, {
      n,
      flow_id: run.flowId,
      trigger_key: run.triggerKey,
      revision: run.revision,
      run_id: run.id,
      started_at: run.startedAt,
      arrived_at: arrivalOf(acceptance),
      key,
      nonce: nonceKey,
      nonce_name: nonce === undefined ? null : nonceName(run, nonce),
      body_sha256: nonce?.bodySha256 ?? null,
      expires_at: nonce?.expiresAt ?? null,
    });
  }
  return claims;
}

/** Of claims of the same text under several keys of a trigger only the first takes part. */
function firstsOf(claims: readonly Claim[], calls: readonly AcceptCall[]): RenamedClaim[] {
  const taken = new Set<string>();
  return claims.flatMap((claim) => {
    const call = calls[claim.n];
    if (call === undefined) return [];
    const texts = claimedTexts(call.acceptance);
    if (texts.some((text) => taken.has(text))) return [];
    for (const text of texts) taken.add(text);
    return [{ claim, texts, acceptance: call.acceptance }];
  });
}

/** A claim of a trigger that had other keys. */
interface RenamedClaim {
  readonly claim: Claim;
  readonly acceptance: Acceptance;
  /** Digests of what is claimed, whatever the key of the trigger. */
  readonly texts: readonly string[];
}

interface Decision {
  /** Its trigger had other keys, so that this decides nothing yet. */
  readonly isRenamed: boolean;
  /** The acceptance has the idempotency key, or needs none. */
  readonly hasKey: boolean;
  readonly hasNonce: boolean;
}

const GIVEN = `given AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset($1) AS given (
        n integer, flow_id text, trigger_key text, revision integer, run_id uuid, started_at bigint, key uuid,
        nonce uuid, nonce_name text, body_sha256 text, expires_at bigint
      )
    )`;

/** Takes what those of `free` claim; $2 is the earliest arrival of the batch: a nonce that expired since is judged alone. */
const TAKING = `keys AS (
      INSERT INTO sluice.idempotency_keys (key, run_id, created_at)
      SELECT key, run_id, started_at FROM free WHERE key IS NOT NULL ORDER BY key
      ON CONFLICT (key) DO NOTHING
      RETURNING key
    ), nonces AS (
      INSERT INTO sluice.nonces AS known (key, name, body_sha256, run_id, expires_at)
      SELECT nonce, nonce_name, body_sha256, run_id, expires_at FROM free
      WHERE nonce IS NOT NULL AND (key IS NULL OR key IN (SELECT key FROM keys)) ORDER BY nonce
      ON CONFLICT (key) DO UPDATE SET seq = DEFAULT, body_sha256 = excluded.body_sha256, run_id = excluded.run_id,
        expires_at = excluded.expires_at
      WHERE known.expires_at <= $2
      RETURNING key
    )`;
const TAKEN = `
    key IS NULL OR key IN (SELECT key FROM keys) AS "hasKey",
    nonce IS NULL OR nonce IN (SELECT key FROM nonces) AS "hasNonce"`;

// Of the whole batch, those that take no part included: any earlier instant will do.
const earliestOf = (claims: readonly Claim[]) => Math.min(...claims.map((claim) => claim.arrived_at));

/**
 * Claims keys and then nonces, each in sorted order, so that batches never block each other; none of a trigger that had
 * other keys. What is missing in the answer is outdated.
 */
async function decideAll(sql: Sql, claims: readonly Claim[]): Promise<Map<number, Decision>> {
  if (claims.length === 0) return new Map();
  const rows = await sql.all<Decision & { n: number }>(
    `WITH ${GIVEN}, queued AS MATERIALIZED (
      SELECT count(pg_advisory_xact_lock_shared(${LOCK_OF_FLOW})) AS locks FROM unnest($3::text[]) AS id
    ), flow AS MATERIALIZED (
      SELECT id, revision, is_enabled AND draining_since IS NULL AS is_open
      FROM sluice.flows WHERE id = ANY($3) AND (SELECT locks FROM queued) > 0 ORDER BY id FOR SHARE
    ), open AS MATERIALIZED (
      SELECT given.*, (key IS NOT NULL OR nonce IS NOT NULL) AND EXISTS (
        SELECT FROM sluice.former_trigger_keys f
        WHERE f.flow_id = given.flow_id AND given.trigger_key IN (f.trigger_key, f.former_key)
      ) AS is_renamed
      FROM given LEFT JOIN flow ON flow.id = given.flow_id
      WHERE flow.id IS NULL OR flow.is_open AND flow.revision = given.revision
    ), free AS (SELECT * FROM open WHERE NOT is_renamed), ${TAKING}
    SELECT n, is_renamed AS "isRenamed", ${TAKEN} FROM open`,
    [jsonRows(claims), earliestOf(claims), [...new Set(claims.map((claim) => claim.flow_id))].sort()],
  );
  return new Map(rows.map(({ n, ...decision }) => [n, decision]));
}

/**
 * Claims keys and nonces of triggers that had other keys, unless one is known under any of them. After the claims of
 * other triggers, everywhere, and after their texts are locked: then none waits here for one that waits for it.
 */
async function decideRenamed(sql: Sql, renamed: readonly RenamedClaim[]): Promise<ReadonlyMap<number, Decision>> {
  if (renamed.length === 0) return new Map();
  lockTexts(
    sql,
    renamed.flatMap(({ texts }) => texts),
  );
  const formerKeys = await listFormerKeys(
    sql,
    renamed.map(({ acceptance }) => acceptance.run),
  );
  const claims = renamed.map(({ claim }) => claim);
  const rows = await sql.all<Decision & { n: number }>(
    `WITH ${GIVEN}, former AS MATERIALIZED (
      SELECT * FROM jsonb_to_recordset($3) AS former (n integer, key uuid, nonce uuid, last_seq bigint, reused_at bigint)
    ), known AS MATERIALIZED (
      SELECT n FROM former JOIN sluice.idempotency_keys k USING (key)
      WHERE reused_at IS NULL OR k.created_at < reused_at
      UNION ALL
      SELECT n FROM former JOIN sluice.nonces k ON k.key = former.nonce
      WHERE (last_seq IS NULL OR k.seq <= last_seq) AND k.expires_at > $2
    ), free AS MATERIALIZED (SELECT * FROM given WHERE n NOT IN (SELECT n FROM known)), ${TAKING}
    SELECT n, false AS "isRenamed", ${TAKEN} FROM free`,
    [
      jsonRows(claims),
      earliestOf(claims),
      jsonRows(renamed.flatMap((one, at) => (formerKeys[at] ?? []).map((key) => formerRow(one, key)))),
    ],
  );
  return new Map(rows.map(({ n, ...decision }) => [n, decision]));
}

/** What a claim would be under another key of its trigger. */
function formerRow({ claim, acceptance }: RenamedClaim, { triggerKey, lastSeq, reusedAt }: FormerKey) {
  const { nonce, idempotencyKey, run } = acceptance;
  return {
    n: claim.n,
    key: idempotencyKey === undefined ? null : digestOf(run.flowId, triggerKey, idempotencyKey),
    nonce: nonce === undefined ? null : digestOf(run.flowId, triggerKey, nonce.value),
    last_seq: lastSeq,
    reused_at: reusedAt,
  };
}
