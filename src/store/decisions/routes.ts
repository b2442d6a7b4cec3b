import type { ManifestSnapshot } from '../../model/manifest.ts';
import { sameTrigger, type TriggerName } from '../../model/trigger-name.ts';
import type { FlowRecord, PlannedDeploy, RouteRecord } from '../store.ts';
import type { Decision } from './decision.ts';
import { fixed, type Port, Rows, sql } from './port.ts';
import { newestRevision } from './revisions.ts';
import type { Verbs } from './verb.ts';

/** A name that leads to another trigger by a deploy than it did before: a slug, or the id of a flow. */
interface Handover {
  readonly slug: string;
  readonly from: TriggerName;
  readonly to: TriggerName;
}

/** The part of a stored manifest that says where slugs lead. */
interface WithTriggers {
  readonly triggers?: Readonly<
    Record<
      string,
      { readonly type: string; readonly inputs?: { readonly webhookSlug?: string; readonly webhookShared?: boolean } }
    >
  >;
}

/** The key of the trigger by its slug, in lower case, since routes are matched in lower case. */
export function slugsOf(snapshot: ManifestSnapshot): Map<string, string> {
  const { triggers = {} } = (snapshot ?? {}) as WithTriggers;
  const slugs = new Map<string, string>();
  for (const [triggerKey, { type, inputs }] of Object.entries(triggers)) {
    const slug = type === 'webhook' ? inputs?.webhookSlug : undefined;
    if (slug !== undefined) slugs.set(slug.toLowerCase(), triggerKey);
  }
  return slugs;
}

/** The key of the trigger by each name of a flow: its slugs, and its id, which leads to the first webhook trigger. */
function namesOf({ id, snapshot }: Pick<PlannedDeploy, 'id' | 'snapshot'>): Map<string, string> {
  const { triggers = {} } = (snapshot ?? {}) as WithTriggers;
  const first = Object.entries(triggers).find(([, { type }]) => type === 'webhook')?.[0];
  return new Map([...(first === undefined ? [] : [[id, first] as const]), ...slugsOf(snapshot)]);
}

/** The last routes of names. Earlier builds stored none for the ids of flows: there the kept revisions tell. */
function* lastRoutes(port: Port, names: readonly string[], lock: '' | 'FOR UPDATE'): Decision<RouteRecord[]> {
  const rows = yield* port.all<RouteRecord>(sql`
    SELECT slug, flow_id AS "flowId", trigger_key AS "triggerKey", revision FROM sluice.routes
    WHERE slug = ANY (${names}) ORDER BY slug ${fixed(lock)}`);
  const known = new Set(rows.map(({ slug }) => slug));
  const unknown = yield* port.all<{ id: string }>(
    sql`SELECT id FROM sluice.flows WHERE id = ANY (${names.filter((name) => !known.has(name))}) ORDER BY id`,
  );
  for (const { id } of unknown) {
    const revisions = yield* port.all<{ revision: number; snapshot: string }>(sql`
      SELECT revision, snapshot FROM sluice.revisions
      WHERE flow_id = ${id} AND strpos(snapshot, '"webhook"') > 0 ORDER BY revision DESC`);
    const routes = revisions.flatMap(({ revision, snapshot }) => {
      const triggerKey = namesOf({ id, snapshot: JSON.parse(snapshot) }).get(id);
      return triggerKey === undefined ? [] : [{ slug: id, flowId: id, triggerKey, revision }];
    });
    rows.push(...routes.slice(0, 1));
  }
  return rows;
}

/** Whether the manifest lets others also have the slug of one of its triggers. */
function isSharing(snapshot: ManifestSnapshot, { slug, triggerKey }: { slug: string; triggerKey: string }): boolean {
  const { triggers = {} } = (snapshot ?? {}) as WithTriggers;
  const inputs = Object.hasOwn(triggers, triggerKey) ? triggers[triggerKey]?.inputs : undefined;
  return inputs?.webhookShared === true && inputs.webhookSlug?.toLowerCase() === slug;
}

/**
 * Names that a deploy takes over from another flow, or from another trigger of the same one, however long ago that gave
 * it up. Their rows do not change until the transaction ends.
 */
export function* listHandovers(port: Port, deploys: readonly PlannedDeploy[]): Decision<readonly Handover[]> {
  const wanted = deploys.flatMap((deploy) =>
    [...(deploy.isUnchanged ? slugsOf(deploy.snapshot) : namesOf(deploy))].map(([slug, triggerKey]) => ({
      slug,
      to: { flowId: deploy.id, triggerKey },
    })),
  );
  if (wanted.length === 0) return [];
  const rows = yield* lastRoutes(port, [...new Set(wanted.map(({ slug }) => slug))], 'FOR UPDATE');
  return rows.flatMap(({ slug, flowId, triggerKey }) => {
    const from = { flowId, triggerKey };
    const others = wanted.filter((each) => each.slug === slug && !sameTrigger(from, each.to));
    return others.map(({ to }) => ({ slug, from, to }));
  });
}

/** Separates slugs that are taken over from slugs that a trigger now shares; leaves out those shared already. */
function* joinedAt(
  port: Port,
  handovers: readonly Handover[],
  { changed, flows }: { changed: readonly PlannedDeploy[]; flows: ReadonlyMap<string, FlowRecord> },
): Decision<{ readonly taken: readonly Handover[]; readonly joined: readonly Handover[] }> {
  const taken: Handover[] = [];
  const joined: Handover[] = [];
  const deployed = new Map<string, ManifestSnapshot>();
  for (const { flowId } of handovers.flatMap(({ from, to }) => [from, to])) {
    const flow = flows.get(flowId);
    if (flow !== undefined && flow.deletedAt === undefined && !deployed.has(flowId)) {
      deployed.set(flowId, (yield* newestRevision(port, flow))?.snapshot ?? null);
    }
  }
  const after = new Map([...deployed, ...changed.map(({ id, snapshot }) => [id, snapshot] as const)]);
  for (const handover of handovers) {
    const { slug, from, to } = handover;
    const shares = (of: ReadonlyMap<string, ManifestSnapshot>, { flowId, triggerKey }: TriggerName) =>
      isSharing(of.get(flowId) ?? null, { slug, triggerKey });
    if (!shares(after, from) || !shares(after, to)) taken.push(handover);
    else if (!shares(deployed, from) || !shares(deployed, to)) joined.push(handover);
  }
  return { taken, joined };
}

/**
 * Stores who earlier received the deliveries that triggers receive from now on: their former keys, and the triggers
 * that had their slugs. If a former trigger receives something else now, only what it has accepted so far counts:
 * nonces so far have numbers up to the last one given out, later nonces have greater ones. All flows are locked.
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
  const { taken, joined } = yield* joinedAt(port, handovers, { changed, flows });
  for (const { from, to } of joined) {
    inheritFormer(port, { from, to }, 'nonces');
    keepJoined(port, { from, to, at });
  }
  const moves = [...renamed, ...taken];
  for (const move of moves) inheritFormer(port, move, 'all');
  for (const { from, to } of moves) {
    port.later(sql`
      INSERT INTO sluice.former_trigger_keys (flow_id, trigger_key, former_flow_id, former_key)
      VALUES (${to.flowId}, ${to.triggerKey}, ${from.flowId}, ${from.triggerKey})
      ON CONFLICT (flow_id, trigger_key, former_flow_id, former_key) DO UPDATE SET last_seq = NULL, reused_at = NULL`);
  }
  for (const { id, triggers } of changed) endFormer(port, { flowId: id, keys: triggers.keys, at });
  for (const { slug, from } of taken) {
    const flow = flows.get(from.flowId);
    if (flow === undefined || changed.some(({ id }) => id === from.flowId)) continue;
    const newest = yield* newestRevision(port, flow);
    const { triggers = {} } = (newest?.snapshot ?? {}) as WithTriggers;
    // A replaced flow still names the slug: deliveries that it was about to accept also count.
    const isOther = Object.hasOwn(triggers, from.triggerKey) && slugsOf(newest?.snapshot ?? {}).get(slug) === undefined;
    if (isOther) endFormer(port, { flowId: from.flowId, keys: [from.triggerKey], at });
  }
}

function inheritFormer(port: Port, { from, to }: Pick<Handover, 'from' | 'to'>, what: 'all' | 'nonces'): void {
  const reusedAt = fixed(what === 'all' ? 'reused_at' : '0');
  port.later(sql`
    INSERT INTO sluice.former_trigger_keys (flow_id, trigger_key, former_flow_id, former_key, last_seq, reused_at)
    SELECT ${to.flowId}, ${to.triggerKey}, former_flow_id, former_key, last_seq, ${reusedAt}
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
    UPDATE sluice.former_trigger_keys SET reused_at = coalesce(reused_at, ${at}),
      last_seq = (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM sluice.nonces_seq_seq)
    WHERE former_flow_id = ${flowId} AND former_key = ANY (${keys}) AND last_seq IS NULL`);
}

/**
 * One trigger knows the nonces that the other has accepted, so that nothing is new at the slug after the other has left
 * it. It does not know the other's keys and events from now on: both start runs for them.
 */
function keepJoined(port: Port, { from, to, at }: Pick<Handover, 'from' | 'to'> & { readonly at: number }): void {
  port.later(sql`
    INSERT INTO sluice.former_trigger_keys (flow_id, trigger_key, former_flow_id, former_key, reused_at)
    VALUES (${to.flowId}, ${to.triggerKey}, ${from.flowId}, ${from.triggerKey}, 0)
    ON CONFLICT (flow_id, trigger_key, former_flow_id, former_key) DO UPDATE SET
      last_seq = NULL, reused_at = coalesce(former_trigger_keys.reused_at, ${at})`);
  port.later(sql`
    UPDATE sluice.former_trigger_keys SET reused_at = coalesce(reused_at, ${at})
    WHERE flow_id = ${from.flowId} AND trigger_key = ${from.triggerKey}
      AND former_flow_id = ${to.flowId} AND former_key = ${to.triggerKey}`);
}

export const routeVerbs: Verbs<'listRoutes'> = {
  listRoutes: {
    access: 'read',
    *decide(port, names) {
      return yield* lastRoutes(port, names, '');
    },
  },
};

/** Stores where the names of a deployed flow lead, until another deploy takes them over. */
export function keepRoutes(port: Port, { id, snapshot }: PlannedDeploy, revision: number): void {
  const rows = [...namesOf({ id, snapshot })].map(([slug, triggerKey]) => ({
    slug,
    flow_id: id,
    trigger_key: triggerKey,
    revision,
  }));
  if (rows.length === 0) return;
  const slugs = [...slugsOf(snapshot).keys()];
  port.later(sql`
    INSERT INTO sluice.slugs (slug, flow_id) SELECT slug, ${id} FROM unnest(${slugs}::text[]) AS given (slug)
    WHERE true ON CONFLICT (slug, flow_id) DO NOTHING`);
  port.later(sql`
    INSERT INTO sluice.routes (slug, flow_id, trigger_key, revision)
    SELECT slug, flow_id, trigger_key, revision
    FROM jsonb_to_recordset(${new Rows(rows)}) AS given (slug text, flow_id text, trigger_key text, revision integer)
    WHERE true ORDER BY slug
    ON CONFLICT (slug) DO UPDATE SET
      flow_id = excluded.flow_id, trigger_key = excluded.trigger_key, revision = excluded.revision`);
}
