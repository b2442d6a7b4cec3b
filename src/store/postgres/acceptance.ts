import type { DeliveryRecord, GateResult } from '../../model/delivery.ts';
import { whyClosed } from '../decisions/sub-runs.ts';
import { digestOf } from '../digest.ts';
import type { Acceptance, AcceptResult, BirthLease, NewRun, NonceClaim } from '../store.ts';
import { claimRedelivery, claimRow } from './deliveries.ts';
import { shareFlow } from './flows.ts';
import { NewRows } from './new-rows.ts';
import type { Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';
import { pinned } from './sub-runs.ts';

export const acceptanceOperations: Operations<'accept' | 'findAcceptedNonce'> = {
  accept: { lane: 'accept', run: accept },
  findAcceptedNonce: { lane: 'read', run: findAcceptedNonce },
};

export async function accept(sql: Sql, acceptance: Acceptance, lease?: BirthLease): Promise<AcceptResult> {
  if (!(await mayStart(sql, acceptance.run))) return { kind: 'outdated' };
  const rows = new NewRows();
  const result = await claim(sql, acceptance, rows);
  if (result.kind === 'accepted') {
    rows.addRun(await pinned(sql, acceptance.run), { idempotencyKey: acceptance.idempotencyKey, lease });
  }
  rows.write(sql);
  return result;
}

/**
 * Whether a run is of the newest revision of its flow and the flow starts runs now, and stays so until the transaction
 * ends: whoever deploys, disables or drains the flow waits for it. A flow that was never deployed cannot differ.
 */
export async function mayStart(sql: Sql, { flowId, revision }: Pick<NewRun, 'flowId' | 'revision'>): Promise<boolean> {
  const flow = await shareFlow(sql, flowId);
  return flow === undefined || (flow.revision === revision && whyClosed(flow) === undefined);
}

/**
 * Claims redelivery, idempotency key and nonce, in this order everywhere, so that transactions that want the same never
 * block each other. Collects the delivery to keep; the caller starts the run where the result is 'accepted'.
 */
export async function claim(sql: Sql, acceptance: Acceptance, rows: NewRows): Promise<AcceptResult> {
  const { delivery, nonce, idempotencyKey, run, verifiedBy } = acceptance;
  const now = arrivalOf(acceptance);
  const source = delivery?.redeliveredFrom;
  if (delivery !== undefined && source !== undefined) {
    const winner = await claimRedelivery(sql, { source, deliveryId: delivery.id, runId: run.id });
    if (winner !== run.id) return { kind: 'duplicate', runId: winner, isReplay: false };
  }
  const texts = claimedTexts(acceptance);
  const [formerKeys = []] = texts.length === 0 ? [] : await listFormerKeys(sql, [run]);
  if (formerKeys.length > 0) lockTexts(sql, texts);
  const runId = idempotencyKey === undefined ? run.id : await claimKey(sql, { idempotencyKey, run, formerKeys });
  const isFirst = runId === run.id;

  const known = nonce && (await claimNonce(sql, { nonce, run, formerKeys, runId, now }));
  if (known !== undefined && nonce?.isEnforced === true) {
    if (isFirst && idempotencyKey !== undefined) await forgetKey(sql, { idempotencyKey, run });
    if (source !== undefined) await sql.run('DELETE FROM sluice.redeliveries WHERE source = $1', [source]);
    return { kind: 'replayed', runId: known.runId, hasSameBody: known.bodySha256 === nonce.bodySha256 };
  }
  const isReplay = known !== undefined;
  if (!isFirst && source !== undefined) {
    await sql.run('UPDATE sluice.redeliveries SET run_id = $2 WHERE source = $1', [source, runId]);
  }
  if (delivery !== undefined) {
    const kept = { ...(isReplay ? withReplay(delivery) : delivery), runId };
    // Bytes and search keys are stored once: with the run, or here where the delivery starts none.
    if (isFirst) rows.addDelivery({ ...kept, searchKeys: undefined }, null);
    else rows.addDelivery(kept, run.trigger.body);
    if (verifiedBy !== undefined && !isReplay && source === undefined) rows.counters.keyUsed(kept, run, verifiedBy);
  }
  return { kind: isFirst ? 'accepted' : 'duplicate', runId, isReplay };
}

/** The earlier of the two: a nonce that was alive when the delivery arrived must not expire while it waits here. */
export function arrivalOf({ delivery, run }: Acceptance): number {
  return Math.min(delivery?.receivedAt ?? run.startedAt, run.startedAt);
}

function withReplay(delivery: DeliveryRecord): DeliveryRecord {
  return {
    ...delivery,
    rejected: true,
    reason: delivery.reason ?? 'nonce_replayed',
    violations: [...delivery.violations, 'nonce_replayed'],
  };
}

interface KeyClaim {
  readonly idempotencyKey: string;
  readonly run: Pick<NewRun, 'id' | 'flowId' | 'triggerKey' | 'startedAt'>;
}

const digestOfKey = ({ idempotencyKey, run }: Pick<KeyClaim, 'idempotencyKey' | 'run'>, triggerKey = run.triggerKey) =>
  digestOf(run.flowId, triggerKey, idempotencyKey);

/** Yields the run that the key belongs to: this one, unless the key was known. */
async function claimKey(
  sql: Sql,
  { formerKeys, ...claimed }: KeyClaim & { readonly formerKeys: readonly FormerKey[] },
): Promise<string> {
  const { run } = claimed;
  const key = digestOfKey(claimed);
  if (formerKeys.length > 0) {
    const known = await sql.get<{ runId: string }>(
      `SELECT k.run_id AS "runId" FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS former (key, reused_at, place)
      JOIN sluice.idempotency_keys k ON k.key = former.key AND (former.reused_at IS NULL OR k.created_at < former.reused_at)
      ORDER BY former.place LIMIT 1`,
      [
        [key, ...formerKeys.map(({ triggerKey }) => digestOfKey(claimed, triggerKey))],
        [null, ...formerKeys.map(({ reusedAt }) => reusedAt)],
      ],
    );
    if (known !== undefined) return known.runId;
  }
  return claimRow(() =>
    sql.get<{ runId: string }>(
      `WITH claimed AS (
        INSERT INTO sluice.idempotency_keys (key, run_id, created_at) VALUES ($1, $2, $3)
        ON CONFLICT (key) DO NOTHING RETURNING run_id
      )
      SELECT run_id AS "runId" FROM claimed
      UNION ALL SELECT run_id FROM sluice.idempotency_keys WHERE key = $1`,
      [key, run.id, run.startedAt],
    ),
  );
}

async function forgetKey(sql: Sql, claimed: KeyClaim): Promise<void> {
  await sql.run('DELETE FROM sluice.idempotency_keys WHERE key = $1', [digestOfKey(claimed)]);
}

/** What the key of a nonce is the digest of. JSON escapes what PostgreSQL does not store. */
export function nonceName(
  { flowId, triggerKey }: Pick<NewRun, 'flowId' | 'triggerKey'>,
  { value }: NonceClaim,
): string {
  return JSON.stringify([flowId, triggerKey, value]);
}

/** The first use of a nonce that has not expired. */
interface KnownNonce {
  readonly runId: string;
  readonly bodySha256: string;
}

interface NonceScope {
  readonly nonce: NonceClaim;
  readonly run: Pick<NewRun, 'flowId' | 'triggerKey'>;
  /** Where else to look for it. */
  readonly formerKeys: readonly FormerKey[];
  /** The run that its row will name. */
  readonly runId: string;
  readonly now: number;
}

/** Stores a nonce that is new or expired and yields undefined; otherwise changes nothing and yields its first use. */
async function claimNonce(sql: Sql, scope: NonceScope): Promise<KnownNonce | undefined> {
  const { nonce, run, formerKeys, runId, now } = scope;
  const key = digestOf(run.flowId, run.triggerKey, nonce.value);
  if (formerKeys.length > 0) {
    const known = await sql.get<KnownNonce>(
      `SELECT n.run_id AS "runId", n.body_sha256 AS "bodySha256"
      FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS former (key, last_seq, place)
      JOIN sluice.nonces n ON n.key = former.key AND (former.last_seq IS NULL OR n.seq <= former.last_seq)
      WHERE n.expires_at > $3 ORDER BY former.place LIMIT 1`,
      [
        [key, ...formerKeys.map(({ triggerKey }) => digestOf(run.flowId, triggerKey, nonce.value))],
        [null, ...formerKeys.map(({ lastSeq }) => lastSeq)],
        now,
      ],
    );
    if (known !== undefined) return known;
  }
  for (;;) {
    const isNew = await sql.run(
      `INSERT INTO sluice.nonces AS n (key, body_sha256, run_id, expires_at, name) VALUES ($1, $2, $3, $4, $6)
      ON CONFLICT (key) DO UPDATE SET seq = DEFAULT, body_sha256 = excluded.body_sha256, run_id = excluded.run_id,
        expires_at = excluded.expires_at
      WHERE n.expires_at <= $5`,
      [key, nonce.bodySha256, runId, nonce.expiresAt, now, nonceName(run, nonce)],
    );
    if (isNew > 0) return undefined;
    const known = await sql.get<KnownNonce>(
      'SELECT run_id AS "runId", body_sha256 AS "bodySha256" FROM sluice.nonces WHERE key = $1 AND expires_at > $2',
      [key, now],
    );
    // Purged in between, as an older nonce: then it is new.
    if (known !== undefined) return known;
  }
}

/** The digests of what an acceptance claims, whatever the key of its trigger. */
export function claimedTexts({ nonce, idempotencyKey, run }: Acceptance): string[] {
  return [idempotencyKey, nonce?.value].flatMap((text) => (text === undefined ? [] : [digestOf(run.flowId, text)]));
}

/**
 * Until the transaction ends, no other one may claim the same texts under another key of the trigger. All are locked at
 * once and in sorted order, so that transactions that want the same never block each other for good.
 */
export function lockTexts(sql: Sql, digests: readonly string[]): void {
  sql.later(
    `SELECT pg_advisory_xact_lock(hashtextextended('sluice claim ' || digest, sluice_lock_scope))
    FROM unnest($1::text[]) AS digest`,
    [[...new Set(digests)].sort()],
  );
}

/** Another key under which a trigger's deliveries may have been accepted. */
export interface FormerKey {
  readonly triggerKey: string;
  /** The newest nonce that counts; null where all do. */
  readonly lastSeq: number | null;
  /** Idempotency keys stored before this instant count; null where all do. */
  readonly reusedAt: number | null;
}

/**
 * Yields for each trigger the keys that it had before it was renamed. Also its later key, because a delivery that came
 * before the rename may be accepted after it.
 */
export async function listFormerKeys(
  sql: Sql,
  triggers: readonly Pick<NewRun, 'flowId' | 'triggerKey'>[],
): Promise<readonly (readonly FormerKey[])[]> {
  const rows = await sql.all<FormerKey & { place: number }>(
    `WITH given AS (SELECT * FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (flow_id, own_key, place))
    SELECT place, former_key AS "triggerKey", last_seq AS "lastSeq", reused_at AS "reusedAt"
    FROM given JOIN sluice.former_trigger_keys f ON f.flow_id = given.flow_id AND f.trigger_key = own_key
    UNION ALL
    SELECT place, trigger_key, NULL, NULL
    FROM given JOIN sluice.former_trigger_keys f ON f.flow_id = given.flow_id AND f.former_key = own_key
    WHERE last_seq IS NULL`,
    [triggers.map(({ flowId }) => flowId), triggers.map(({ triggerKey }) => triggerKey)],
  );
  const keys = triggers.map((): FormerKey[] => []);
  for (const { place, ...key } of rows) keys[place - 1]?.push(key);
  return keys;
}

async function findAcceptedNonce(sql: Sql, search: Given<'findAcceptedNonce'>): Promise<string | undefined> {
  const { flowId, triggerKey } = search;
  const own = { triggerKey, lastSeq: null, reusedAt: null };
  const [formerKeys = []] = await listFormerKeys(sql, [{ flowId, triggerKey }]);
  for (const key of [own, ...formerKeys]) {
    const runId = await findAcceptedUnder(sql, key, search);
    if (runId !== undefined) return runId;
  }
  return undefined;
}

/** Stories that have the nonce somewhere are read a few at a time: nearly always the first is the one. */
const READ_STORIES = 20;

async function findAcceptedUnder(
  sql: Sql,
  key: FormerKey,
  { flowId, nonce, since }: Given<'findAcceptedNonce'>,
): Promise<string | undefined> {
  let after = '00000000-0000-0000-0000-000000000000';
  for (;;) {
    // Parsed here: PostgreSQL's JSON functions refuse an escaped NUL anywhere in a text.
    const rows = await sql.all<{ id: string; runId: string; story: string }>(
      `SELECT id, run_id AS "runId", story FROM sluice.deliveries
      WHERE flow_id = $1 AND trigger_key = $2 AND received_at >= $3 AND ($4::bigint IS NULL OR received_at < $4)
        AND run_id IS NOT NULL AND position($5 IN story) > 0 AND id > $6
      ORDER BY id LIMIT ${READ_STORIES}`,
      [flowId, key.triggerKey, since, key.reusedAt, JSON.stringify(nonce), after],
    );
    const found = rows.find(({ story }) =>
      (JSON.parse(story) as readonly GateResult[]).some(({ facts }) => facts.nonce === nonce),
    );
    if (found !== undefined) return found.runId;
    if (rows.length < READ_STORIES) return undefined;
    after = rows.at(-1)?.id ?? after;
  }
}
