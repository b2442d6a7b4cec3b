import type { RunnableManifest } from '../../model/manifest.ts';
import { manifestDigest } from '../digest.ts';
import type { FlowDeploy, FlowRecord, PlannedDeploy } from '../store.ts';
import type { Decision } from './decision.ts';
import { fixed, type Port, sql } from './port.ts';
import type { Verbs } from './verb.ts';

/**
 * The number of a flow's lock, from its `id`. Acceptances share it before they share the flow's row: waiting for a row
 * that is shared again and again can take seconds, but this lock gives everyone a turn.
 */
export const LOCK_OF_FLOW = "hashtextextended('sluice flow ' || id, sluice_lock_scope)";
const lockOfFlow = fixed(LOCK_OF_FLOW);

interface FlowRow extends Omit<FlowRecord, 'drainingSince' | 'holdsDeliveries' | 'deletedAt'> {
  readonly drainingSince: number | null;
  readonly holdsDeliveries: boolean | null;
  readonly deletedAt: number | null;
}

const columns = fixed(`id, name, version, revision, is_enabled AS "isEnabled", draining_since AS "drainingSince",
  holds_deliveries AS "holdsDeliveries", deleted_at AS "deletedAt", created_at AS "createdAt", updated_at AS "updatedAt"`);

function toFlow({ drainingSince, holdsDeliveries, deletedAt, ...row }: FlowRow): FlowRecord {
  return {
    ...row,
    ...(drainingSince === null ? {} : { drainingSince }),
    ...(holdsDeliveries === null ? {} : { holdsDeliveries }),
    ...(deletedAt === null ? {} : { deletedAt }),
  };
}

/**
 * Makes every other change of these flows and of their keys wait until the transaction ends. A flow that does not exist
 * has no row to lock, but of two transactions that deploy it first one must also wait.
 */
export function* lockFlowIds(port: Port, flowIds: readonly string[]): Decision<readonly string[]> {
  // In the same order everywhere, or two deploys of the same flows could block each other.
  const ids = [...new Set(flowIds)].sort();
  yield* port.run(sql`SELECT pg_advisory_xact_lock(${lockOfFlow}) FROM unnest(${ids}::text[]) AS given (id)`);
  return ids;
}

/**
 * Like `lockFlowIds`, but acceptances, which hold their flow's row, wait too: later reads see every run accepted for
 * these flows until then. Yields the flows that exist.
 */
export function* lockFlows(port: Port, flowIds: readonly string[]): Decision<ReadonlyMap<string, FlowRecord>> {
  const ids = yield* lockFlowIds(port, flowIds);
  const rows = yield* port.all<FlowRow>(
    sql`SELECT ${columns} FROM sluice.flows WHERE id = ANY (${ids}) ORDER BY id FOR UPDATE`,
  );
  return new Map(rows.map((row) => [row.id, toFlow(row)]));
}

/** Flows, which stay unchanged until the transaction ends: deploying, disabling or draining one waits for that. */
export function* shareFlows(port: Port, flowIds: readonly string[]): Decision<ReadonlyMap<string, FlowRecord>> {
  const ids = [...new Set(flowIds)].sort();
  port.later(sql`SELECT pg_advisory_xact_lock_shared(${lockOfFlow}) FROM unnest(${ids}::text[]) AS given (id)`);
  const rows = yield* port.all<FlowRow>(
    sql`SELECT ${columns} FROM sluice.flows WHERE id = ANY (${ids}) ORDER BY id FOR SHARE`,
  );
  return new Map(rows.map((row) => [row.id, toFlow(row)]));
}

/** The flows that have each slug, or had it. */
export function* flowsAt(port: Port, slugs: readonly string[]): Decision<ReadonlyMap<string, readonly FlowRecord[]>> {
  const rows = yield* port.all<FlowRow & { slug: string }>(
    sql`SELECT slug, ${columns} FROM sluice.slugs JOIN sluice.flows ON id = flow_id WHERE slug = ANY (${slugs})`,
  );
  const flows = new Map<string, FlowRecord[]>();
  for (const { slug, ...row } of rows) flows.set(slug, [...(flows.get(slug) ?? []), toFlow(row)]);
  return flows;
}

export function* findFlow(port: Port, flowId: string): Decision<FlowRecord | undefined> {
  const row = yield* port.get<FlowRow>(sql`SELECT ${columns} FROM sluice.flows WHERE id = ${flowId}`);
  return row && toFlow(row);
}

function* findDeployed(port: Port, flowId: string): Decision<FlowRecord | undefined> {
  const flow = yield* findFlow(port, flowId);
  return flow?.deletedAt === undefined ? flow : undefined;
}

/** Flows by name, ignoring case; with `names` only flows with such an id, or with such a slug, now or in the past. */
export function* listFlows(port: Port, names?: readonly string[]): Decision<FlowRecord[]> {
  const rows = yield* port.all<FlowRow>(
    names === undefined
      ? sql`SELECT ${columns} FROM sluice.flows ORDER BY id`
      : sql`SELECT ${columns} FROM sluice.flows WHERE id IN (
          SELECT name FROM unnest(${names}::text[]) AS given (name)
          UNION SELECT flow_id FROM sluice.slugs WHERE slug = ANY (${names})) ORDER BY id`,
  );
  const nameOf = ({ name }: FlowRow) => name.toLowerCase();
  return rows.sort((a, b) => Number(nameOf(a) > nameOf(b)) - Number(nameOf(a) < nameOf(b))).map(toFlow);
}

/** Whether a flow is deployed with this manifest as its newest revision. */
function* hasHash(port: Port, { id, revision, deletedAt }: FlowRecord, hash: string): Decision<boolean> {
  if (deletedAt !== undefined) return false;
  const found = yield* port.get(
    sql`SELECT 1 FROM sluice.revisions WHERE flow_id = ${id} AND revision = ${revision} AND hash = ${hash}`,
  );
  return found !== undefined;
}

function actingSteps(snapshot: FlowDeploy['snapshot']): string[] {
  const { steps } = snapshot as unknown as RunnableManifest;
  return Object.keys(steps).filter((key) => steps[key]?.type !== 'NoOp');
}

/** Stores a manifest as the revision after `newest`, under the lock of its flow, with facts from the deploy's plan. */
export function* insertRevision(
  port: Port,
  newest: number,
  deploy: FlowDeploy & Partial<PlannedDeploy>,
): Decision<FlowRecord> {
  const { id, name, version, hash, snapshot, at, source = null, overrides = [], findings = [] } = deploy;
  const { actor = null, reason = null, access = 'same', needs = null } = deploy;
  const revision = newest + 1;
  port.later(sql`
    INSERT INTO sluice.revisions (flow_id, revision, name, version, hash, digest, created_at, source, actor, reason, access,
      overrides, findings, acting_steps, needs, snapshot)
    VALUES (${id}, ${revision}, ${name}, ${version}, ${hash}, ${manifestDigest(snapshot)}, ${at}, ${source}, ${actor},
      ${reason}, ${access}, ${JSON.stringify(overrides)}, ${JSON.stringify(findings)},
      ${JSON.stringify(actingSteps(snapshot))}, ${needs === null ? null : JSON.stringify(needs)},
      ${JSON.stringify(snapshot)})`);
  const row = yield* port.get<FlowRow>(sql`
    INSERT INTO sluice.flows (id, name, version, revision, is_enabled, created_at, updated_at)
    VALUES (${id}, ${name}, ${version}, ${revision}, true, ${at}, ${at})
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, revision = excluded.revision,
      updated_at = excluded.updated_at, deleted_at = NULL
    RETURNING ${columns}`);
  if (row === undefined) throw new Error(`The flow ${id} was not stored.`);
  return toFlow(row);
}

/** Stores whether deliveries of a closed flow are held, or forgets it when a flow is opened. */
function keepHolding(port: Port, flowId: string, closed: { holdsDeliveries: boolean | undefined } | undefined): void {
  port.later(
    closed === undefined
      ? sql`UPDATE sluice.flows SET holds_deliveries = NULL
          WHERE id = ${flowId} AND holds_deliveries IS NOT NULL AND is_enabled AND draining_since IS NULL`
      : sql`UPDATE sluice.flows SET holds_deliveries = ${closed.holdsDeliveries ?? null}
          WHERE id = ${flowId} AND deleted_at IS NULL`,
  );
}

export const flowVerbs: Verbs<'deployFlow' | 'setFlowEnabled' | 'setFlowDraining' | 'listFlows' | 'findFlow'> = {
  deployFlow: {
    access: 'write',
    changes: ({ id }) => [{ kind: 'flow', flowId: id }],
    *decide(port, deploy) {
      const deployed = (yield* lockFlows(port, [deploy.id])).get(deploy.id);
      if (deployed !== undefined && (yield* hasHash(port, deployed, deploy.hash))) return deployed;
      return yield* insertRevision(port, deployed?.revision ?? 0, deploy);
    },
  },
  setFlowEnabled: {
    access: 'write',
    changes: ({ flowId }) => [{ kind: 'flow', flowId }],
    *decide(port, { flowId, isEnabled, holdsDeliveries, at }) {
      yield* lockFlowIds(port, [flowId]);
      port.later(sql`
        UPDATE sluice.flows SET is_enabled = ${isEnabled}, updated_at = ${at}
        WHERE id = ${flowId} AND is_enabled <> ${isEnabled} AND deleted_at IS NULL`);
      keepHolding(port, flowId, isEnabled ? undefined : { holdsDeliveries });
      return yield* findDeployed(port, flowId);
    },
  },
  setFlowDraining: {
    access: 'write',
    changes: ({ flowId }) => [{ kind: 'flow', flowId }],
    /** Waits for acceptances under way, so that the caller's later count has all runs in flight. */
    *decide(port, { flowId, isDraining, holdsDeliveries, at }) {
      yield* lockFlowIds(port, [flowId]);
      port.later(
        isDraining
          ? sql`UPDATE sluice.flows SET draining_since = ${at} WHERE id = ${flowId} AND draining_since IS NULL
              AND deleted_at IS NULL`
          : sql`UPDATE sluice.flows SET draining_since = NULL WHERE id = ${flowId} AND draining_since IS NOT NULL`,
      );
      keepHolding(port, flowId, isDraining ? { holdsDeliveries } : undefined);
      return yield* findDeployed(port, flowId);
    },
  },
  listFlows: { access: 'read', decide: listFlows },
  findFlow: { access: 'read', decide: findFlow },
};
