import { digestOf } from '../digest.ts';
import type { Acceptance, AcceptResult, BirthLease } from '../store.ts';
import { arrivalOf, nonceName } from './acceptance.ts';
import { LOCK_OF_FLOW } from './flows.ts';
import { NewRows } from './new-rows.ts';
import { jsonRows, type Sql } from './sql.ts';

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
  const decided = await decideAll(sql, [...wanted.values()]);
  const rows = new NewRows();
  const unused: string[] = [];
  const results = calls.map((call, n): AcceptResult | undefined => {
    const claim = wanted.get(n);
    if (claim === undefined) return undefined;
    const decision = decided.get(n);
    if (decision === undefined) return { kind: 'outdated' };
    if (!decision.hasNonce && decision.hasKey && claim.key !== null) unused.push(claim.key);
    if (!decision.hasNonce || !decision.hasKey) return undefined;
    keep(rows, call);
    return { kind: 'accepted', runId: call.acceptance.run.id, isReplay: false };
  });
  if (unused.length > 0) sql.later('DELETE FROM sluice.idempotency_keys WHERE key = ANY($1)', [unused]);
  rows.write(sql);
  return results;
}

function keep(rows: NewRows, { acceptance: { delivery, run, idempotencyKey }, lease }: AcceptCall): void {
  if (delivery !== undefined) rows.addDelivery({ ...delivery, runId: run.id, searchKeys: undefined }, null);
  rows.addRun(run, { idempotencyKey, lease });
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

interface Decision {
  /** The acceptance has the idempotency key, or needs none. */
  readonly hasKey: boolean;
  readonly hasNonce: boolean;
}

/**
 * Claims keys and then nonces, each in sorted order, so that batches never block each other; none of a trigger that had
 * other keys, where more rows would have to be looked at. What is missing in the answer is outdated.
 */
async function decideAll(sql: Sql, claims: readonly Claim[]): Promise<ReadonlyMap<number, Decision>> {
  if (claims.length === 0) return new Map();
  const rows = await sql.all<Decision & { n: number }>(
    `WITH given AS MATERIALIZED (
      SELECT * FROM json_to_recordset($1) AS given (
        n integer, flow_id text, trigger_key text, revision integer, run_id uuid, started_at bigint, key uuid,
        nonce uuid, nonce_name text, body_sha256 text, expires_at bigint
      )
    ), queued AS MATERIALIZED (
      SELECT count(pg_advisory_xact_lock_shared(${LOCK_OF_FLOW})) AS locks FROM unnest($2::text[]) AS id
    ), flow AS MATERIALIZED (
      SELECT id, revision, is_enabled AND draining_since IS NULL AS is_open
      FROM sluice.flows WHERE id = ANY($2) AND (SELECT locks FROM queued) > 0 ORDER BY id FOR SHARE
    ), open AS MATERIALIZED (
      SELECT given.*, key IS NULL AND nonce IS NULL OR NOT EXISTS (
        SELECT FROM sluice.former_trigger_keys f
        WHERE f.flow_id = given.flow_id AND given.trigger_key IN (f.trigger_key, f.former_key)
      ) AS is_plain
      FROM given LEFT JOIN flow ON flow.id = given.flow_id
      WHERE flow.id IS NULL OR flow.is_open AND flow.revision = given.revision
    ), keys AS (
      INSERT INTO sluice.idempotency_keys (key, run_id, created_at)
      SELECT key, run_id, started_at FROM open WHERE is_plain AND key IS NOT NULL ORDER BY key
      ON CONFLICT (key) DO NOTHING
      RETURNING key
    ), nonces AS (
      INSERT INTO sluice.nonces AS known (key, name, body_sha256, run_id, expires_at)
      SELECT nonce, nonce_name, body_sha256, run_id, expires_at FROM open
      WHERE is_plain AND nonce IS NOT NULL AND (key IS NULL OR key IN (SELECT key FROM keys)) ORDER BY nonce
      ON CONFLICT (key) DO UPDATE SET seq = DEFAULT, body_sha256 = excluded.body_sha256, run_id = excluded.run_id,
        expires_at = excluded.expires_at
      WHERE known.expires_at <= $3
      RETURNING key
    )
    SELECT n, is_plain AND (key IS NULL OR key IN (SELECT key FROM keys)) AS "hasKey",
      is_plain AND (nonce IS NULL OR nonce IN (SELECT key FROM nonces)) AS "hasNonce"
    FROM open`,
    [
      jsonRows(claims),
      [...new Set(claims.map((claim) => claim.flow_id))].sort(),
      // The earliest of the batch: a nonce that expired since is judged alone.
      Math.min(...claims.map((claim) => claim.arrived_at)),
    ],
  );
  return new Map(rows.map(({ n, ...decision }) => [n, decision]));
}
