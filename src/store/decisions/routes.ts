import type { ManifestSnapshot } from '../../model/manifest.ts';
import type { FlowRecord, NewRun, PlannedDeploy } from '../store.ts';
import type { Decision } from './decision.ts';
import { type Port, Rows, sql } from './port.ts';
import { newestRevision } from './revisions.ts';
import type { Verbs } from './verb.ts';

type Trigger = Pick<NewRun, 'flowId' | 'triggerKey'>;

/** Where a slug led before it leads where a deploy says, if that is another trigger. */
interface Handover {
  readonly slug: string;
  readonly from: Trigger;
  readonly to: Trigger;
}

/** What of a stored manifest says where slugs lead. */
interface WithTriggers {
  readonly triggers?: Readonly<
    Record<string, { readonly type: string; readonly inputs?: { readonly webhookSlug?: string } }>
  >;
}

/** The key of the trigger by its slug, in lower case, as routes are matched. */
function slugsOf(snapshot: ManifestSnapshot): Map<string, string> {
  const { triggers = {} } = (snapshot ?? {}) as WithTriggers;
  const slugs = new Map<string, string>();
  for (const [triggerKey, { type, inputs }] of Object.entries(triggers)) {
    const slug = type === 'webhook' ? inputs?.webhookSlug : undefined;
    if (slug !== undefined) slugs.set(slug.toLowerCase(), triggerKey);
  }
  return slugs;
}

/**
 * Slugs that a deploy takes over, from another flow or from another trigger of the same one, however long ago that gave it
 * up. Their rows stay as they are until the transaction ends.
 */
export function* listHandovers(port: Port, deploys: readonly PlannedDeploy[]): Decision<readonly Handover[]> {
  const wanted = new Map(
    deploys.flatMap(({ id, snapshot }) =>
      [...slugsOf(snapshot)].map(([slug, triggerKey]) => [slug, { flowId: id, triggerKey }] as const),
    ),
  );
  if (wanted.size === 0) return [];
  const rows = yield* port.all<Trigger & { slug: string }>(sql`
    SELECT slug, flow_id AS "flowId", trigger_key AS "triggerKey" FROM sluice.routes
    WHERE slug = ANY (${[...wanted.keys()]}) ORDER BY slug FOR UPDATE`);
  return rows.flatMap(({ slug, ...from }) => {
    const to = wanted.get(slug);
    return to === undefined || isSame(from, to) ? [] : [{ slug, from, to }];
  });
}

/**
 * Keeps what received before what triggers receive from now on: their former keys, and the triggers that had their slugs.
 * Where a former one receives something else, only what it has accepted so far counts: every nonce until now has a number
 * that is given out, every later one a greater. All flows are locked.
 */
export function* keepFormerTriggers(
  port: Port,
  changed: readonly PlannedDeploy[],
  { flows, handovers, at }: { flows: ReadonlyMap<string, FlowRecord>; handovers: readonly Handover[]; at: number },
): Decision<void> {
  const renamed = changed.flatMap(({ id: flowId, triggers }) =>
    triggers.moved.map(({ from, to }) => ({
      from: { flowId, triggerKey: from },
      to: { flowId, triggerKey: to },
    })),
  );
  const moves = [...renamed, ...handovers];
  for (const move of moves) inheritFormer(port, move);
  for (const { from, to } of moves) {
    port.later(sql`
      INSERT INTO sluice.former_trigger_keys (flow_id, trigger_key, former_flow_id, former_key)
      VALUES (${to.flowId}, ${to.triggerKey}, ${from.flowId}, ${from.triggerKey})
      ON CONFLICT (flow_id, trigger_key, former_flow_id, former_key) DO UPDATE SET last_seq = NULL, reused_at = NULL`);
  }
  for (const { id, triggers } of changed) endFormer(port, { flowId: id, keys: triggers.keys, at });
  for (const { slug, from } of handovers) {
    const flow = flows.get(from.flowId);
    if (flow === undefined || changed.some(({ id }) => id === from.flowId)) continue;
    const newest = yield* newestRevision(port, flow);
    const { triggers = {} } = (newest?.snapshot ?? {}) as WithTriggers;
    // A flow that another replaces still names the slug: what it was about to accept counts too.
    const isOther = Object.hasOwn(triggers, from.triggerKey) && slugsOf(newest?.snapshot ?? {}).get(slug) === undefined;
    if (isOther) endFormer(port, { flowId: from.flowId, keys: [from.triggerKey], at });
  }
}

function isSame(one: Trigger, other: Trigger): boolean {
  return one.flowId === other.flowId && one.triggerKey === other.triggerKey;
}

function inheritFormer(port: Port, { from, to }: Pick<Handover, 'from' | 'to'>): void {
  port.later(sql`
    INSERT INTO sluice.former_trigger_keys (flow_id, trigger_key, former_flow_id, former_key, last_seq, reused_at)
    SELECT ${to.flowId}, ${to.triggerKey}, former_flow_id, former_key, last_seq, reused_at
    FROM sluice.former_trigger_keys
    WHERE flow_id = ${from.flowId} AND trigger_key = ${from.triggerKey}
      AND (former_flow_id <> ${to.flowId} OR former_key <> ${to.triggerKey})
    ON CONFLICT (flow_id, trigger_key, former_flow_id, former_key) DO UPDATE SET
      last_seq = CASE WHEN former_trigger_keys.last_seq IS NOT NULL AND excluded.last_seq IS NOT NULL
        THEN greatest(former_trigger_keys.last_seq, excluded.last_seq) END,
      reused_at = CASE WHEN former_trigger_keys.reused_at IS NOT NULL AND excluded.reused_at IS NOT NULL
        THEN greatest(former_trigger_keys.reused_at, excluded.reused_at) END`);
}

function endFormer(port: Port, { flowId, keys, at }: { flowId: string; keys: readonly string[]; at: number }): void {
  port.later(sql`
    UPDATE sluice.former_trigger_keys SET reused_at = ${at},
      last_seq = (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM sluice.nonces_seq_seq)
    WHERE former_flow_id = ${flowId} AND former_key = ANY (${keys}) AND last_seq IS NULL`);
}

export const routeVerbs: Verbs<'listRoutes'> = {
  listRoutes: {
    access: 'read',
    *decide(port, slugs) {
      return yield* port.all(sql`
        SELECT slug, flow_id AS "flowId", trigger_key AS "triggerKey", revision FROM sluice.routes
        WHERE slug = ANY (${slugs}) ORDER BY slug`);
    },
  },
};

/** Remembers where the slugs of a deployed manifest lead, until another deploy takes them over. */
export function keepRoutes(port: Port, { id, snapshot }: PlannedDeploy, revision: number): void {
  const rows = [...slugsOf(snapshot)].map(([slug, triggerKey]) => ({
    slug,
    flow_id: id,
    trigger_key: triggerKey,
    revision,
  }));
  if (rows.length === 0) return;
  port.later(sql`
    INSERT INTO sluice.routes (slug, flow_id, trigger_key, revision)
    SELECT slug, flow_id, trigger_key, revision
    FROM jsonb_to_recordset(${new Rows(rows)}) AS given (slug text, flow_id text, trigger_key text, revision integer)
    WHERE true ORDER BY slug
    ON CONFLICT (slug) DO UPDATE SET
      flow_id = excluded.flow_id, trigger_key = excluded.trigger_key, revision = excluded.revision`);
}
