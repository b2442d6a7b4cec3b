import pg from 'pg';
import type { SchemaDifference } from '../contract/examination.ts';
import { type SchemaObjects, schemaDifference } from '../schema-objects.ts';
import { POSTGRES_ADDS, TABLES } from '../tables.ts';

/** Queries rows, with names of tables as elsewhere in this folder. */
type Ask = (text: string, values: readonly string[]) => Promise<readonly { readonly name: string }[]>;

const VIEWS: ReadonlySet<string> = new Set(['run_inputs']);

/** The indexes that migrations make for each table, without primary keys; a test compares both with a new schema. */
const INDEXES: Readonly<Record<string, string>> = {
  arrival_hours: 'arrival_hours_by_hour',
  changes: 'changes_by_xid',
  coalesce_groups: 'coalesce_groups_by_end coalesce_groups_by_run coalesce_groups_held',
  deliveries:
    'deliveries_by_flow deliveries_by_flow_reason deliveries_by_flow_rejected deliveries_by_outcome deliveries_by_reason deliveries_discarded deliveries_refused deliveries_rejected',
  delivery_keys: 'delivery_keys_by_value',
  delivery_shares: 'delivery_shares_by_flow',
  event_ids: 'event_ids_by_expiry',
  former_trigger_keys: 'former_trigger_keys_by_former',
  held_deliveries: 'held_by_delivery held_by_flow held_that_join',
  idempotency_keys: 'idempotency_keys_by_run',
  interventions: 'interventions_by_id interventions_by_target interventions_by_time',
  kept_signals: 'kept_signals_by_time',
  key_hours: 'key_hours_by_hour',
  nonces: 'nonces_by_alias nonces_by_expiry',
  ordered_runs: 'ordered_runs_by_lane ordered_runs_keyless ordered_runs_stopped ordered_runs_waiting',
  payload_paths: 'payload_paths_by_hour',
  redeliveries: 'redeliveries_by_delivery',
  revisions: 'revisions_with_snapshot',
  routes: 'routes_by_revision',
  run_deliveries: 'run_deliveries_by_commit run_deliveries_that_joined',
  run_keys: 'run_keys_by_value',
  run_pins: 'run_pins_by_flow',
  runs: 'runs_by_commit runs_by_deadline runs_by_delivery runs_by_revision runs_by_source runs_by_status runs_by_time runs_by_trigger',
  signals: 'signals_by_delivery signals_by_run',
  steps:
    'steps_awaited steps_by_limit steps_due steps_failed steps_failed_by_code steps_of_host steps_suspect steps_waiting',
  sub_runs: 'sub_runs_by_parent',
};
const TRIGGERS: Readonly<Record<string, string>> = {
  run_inputs: 'add_run_input',
  runs: 'note_failed_run',
  steps: 'wake_by_insert wake_by_update',
};

/** How a schema differs from the one that the migrations of this release make. */
export async function schemaDifferenceOf(ask: Ask, schema: string): Promise<SchemaDifference> {
  return schemaDifference(await objectsIn(ask, schema), objectsMade());
}

async function objectsIn(ask: Ask, schema: string): Promise<SchemaObjects> {
  const rows = await ask(
    `SELECT CASE c.relkind WHEN 'i' THEN 'index ' || c.relname || ' on ' || t.relname
        WHEN 'v' THEN 'view ' || c.relname WHEN 'm' THEN 'view ' || c.relname ELSE 'table ' || c.relname END AS name
      FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
      WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'i')
    UNION ALL
    SELECT 'column ' || c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
      WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT 'trigger ' || g.tgname || ' on ' || c.relname FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
      WHERE c.relnamespace = $1::regnamespace AND NOT g.tgisinternal`,
    [pg.escapeIdentifier(schema)],
  );
  return new Map(rows.map(({ name }) => [name, '']));
}

function objectsMade(): SchemaObjects {
  const adds: Readonly<Record<string, object>> = POSTGRES_ADDS.columns;
  const tables = [
    ...Object.entries(TABLES).map(([name, { columns }]) => [name, { ...columns, ...adds[name] }] as const),
    ...Object.entries(POSTGRES_ADDS.tables).map(([name, { columns }]) => [name, columns] as const),
  ];
  const listed = (kind: string, names: Readonly<Record<string, string>>) =>
    Object.entries(names).flatMap(([table, list]) => list.split(' ').map((name) => `${kind} ${name} on ${table}`));
  const names = tables.flatMap(([name, columns]) => [
    ...(VIEWS.has(name) ? [`view ${name}`] : [`table ${name}`, `index ${name}_pkey on ${name}`]),
    ...Object.keys(columns).map((column) => `column ${name}.${column}`),
  ]);
  return new Map([...names, ...listed('index', INDEXES), ...listed('trigger', TRIGGERS)].map((name) => [name, '']));
}
