import { createHash } from 'node:crypto';
import type { Change, Store } from '../store.ts';
import type { OperationName } from './operation.ts';
import type { Sql } from './sql.ts';

type Kind = Exclude<Change['kind'], 'runs'>;
export type FlowChange = Extract<Change, { kind: Kind }>;

type Changes<Name extends OperationName> = (
  given: Parameters<Store[Name]>[0],
  answer: Awaited<ReturnType<Store[Name]>>,
) => readonly FlowChange[];

const flow = (flowId: string): FlowChange[] => [{ kind: 'flow', flowId }];

/**
 * What other replicas must hear of each member of the store: what they keep in memory and this member changes. A new
 * member has to say so here, or that it changes nothing of the kind; otherwise others would go on with what they remember.
 */
const CHANGES: { readonly [Name in OperationName]: Changes<Name> | null } = {
  deployFlow: ({ id }) => flow(id),
  applyDeploys: (deploys) => deploys.flatMap(({ id }) => flow(id)),
  deleteFlow: ({ flowId }, { kind }) => (kind === 'deleted' ? flow(flowId) : []),
  setFlowEnabled: ({ flowId }) => flow(flowId),
  setFlowDraining: ({ flowId }) => flow(flowId),
  holdDelivery: ({ run }, { kind }) => (kind === 'held' ? flow(run.flowId) : []),
  discardHeld: ({ flowId }, { discarded }) => (discarded > 0 ? flow(flowId) : []),
  releaseHeld: ({ flowId }, { runs }) => (runs.length > 0 ? flow(flowId) : []),
  learnKey: ({ flowId }) => [{ kind: 'key', flowId }],
  forgetKey: ({ flowId }) => [{ kind: 'key', flowId }],
  changeSchedule: ({ flowId }) => [{ kind: 'schedule', flowId }],
  fireSchedule: ({ flowId }, result) => (result === 'fired' ? [{ kind: 'schedule', flowId }] : []),

  // Runs and their steps are kept by no replica: wake-ups tell of due steps, and `runChanged` the page of the rest.
  accept: null,
  advance: null,
  beginAttempts: null,
  cancelRun: null,
  claimDue: null,
  claimOverdue: null,
  deliverSignal: null,
  recover: null,
  releaseHostWaits: null,
  takeHostPlaces: null,
  returnHostPlaces: null,
  renewLeases: null,
  retryStep: null,
  returnLeases: null,

  // Each replica looks at these every second, every heartbeat or whenever it needs them.
  beat: null,
  beginHousekeeping: null,
  keepTime: null,
  changeCircuit: null,
  commitAlerts: null,
  commitPayloadWatch: null,
  forgetAlerts: null,

  // Records that are read from the store alone.
  beginIntervention: null,
  changeActivityKey: null,
  endIntervention: null,
  endSession: null,
  keepSecret: null,
  noteIntervention: null,
  noteKeys: null,
  ping: null,
  purgeDeliveries: null,
  purgeInterventions: null,
  purgeNonces: null,
  purgePathCounts: null,
  purgeRevisions: null,
  purgeRuns: null,
  recordDelivery: null,
  renewNeeds: null,
  tidyKeys: null,

  // Read-only transactions.
  checkInterventions: null,
  countChildren: null,
  countDeliveries: null,
  countEndedRuns: null,
  countHeld: null,
  countRuns: null,
  deliveryStats: null,
  deliveryTimeseries: null,
  describeRuns: null,
  findAcceptedNonce: null,
  findDelivery: null,
  findFlow: null,
  findIterations: null,
  findLineage: null,
  findRedelivery: null,
  findRevision: null,
  findRun: null,
  findStep: null,
  findSuperseded: null,
  isSessionEnded: null,
  listCircuits: null,
  listDeliveries: null,
  listDeployed: null,
  listFlows: null,
  listHostPlaces: null,
  listHeld: null,
  listHostWaits: null,
  listInterventions: null,
  listKeyFigures: null,
  listKeyUsers: null,
  listLearnedKeys: null,
  listLoops: null,
  listMoments: null,
  listPathCounts: null,
  listPathDrifts: null,
  listReplicas: null,
  listRevisions: null,
  listRoutes: null,
  listRuns: null,
  listSchedules: null,
  listSignals: null,
  listSlotWaits: null,
  listSteps: null,
  measureBacklog: null,
  measureStorage: null,
  noteCredentials: null,
  outlineSteps: null,
  pageSteps: null,
  readAlerts: null,
  readLiveFlow: null,
  readPayloadWatch: null,
  readRunInput: null,
  readValue: null,
  releaseSpace: null,
  runTimeseries: null,
  sampleDeliveries: null,
  sumPathCounts: null,
  summariseDeliveries: null,
};

/**
 * Says in its own transaction what a member changed. The row is the truth, by the number of the transaction that wrote
 * it; the notice, which PostgreSQL sends with the commit, only saves the others a wait.
 */
export async function announce(sql: Sql, name: OperationName, { given, answer }: Called): Promise<void> {
  // The table types each member's own argument and answer: here both are only passed on.
  const changesOf = CHANGES[name] as ((given: unknown, answer: unknown) => readonly FlowChange[]) | null;
  const changes = changesOf?.(given, answer) ?? [];
  if (changes.length === 0) return;
  await sql.all(
    `WITH changed AS (
      INSERT INTO sluice.changes (flow_id, kind)
      SELECT DISTINCT flow_id, kind FROM unnest($1::text[], $2::text[]) AS given (flow_id, kind) ORDER BY flow_id, kind
      ON CONFLICT (flow_id, kind) DO UPDATE SET xid = pg_current_xact_id()
      RETURNING flow_id, kind
    )
    SELECT pg_notify($3, json_build_object('kind', kind, 'flowId', flow_id)::text) FROM changed`,
    [changes.map(({ flowId }) => flowId), changes.map(({ kind }) => kind), channelOf(sql.schema)],
  );
}

interface Called {
  readonly given: unknown;
  readonly answer: unknown;
}

/** Where a schema's replicas listen: the names of channels are those of a whole database, and short. */
export function channelOf(schema: string): string {
  return schema === 'sluice' ? 'sluice_changes' : `sluice_changes_${digestOf(schema)}`;
}

function digestOf(schema: string): string {
  return createHash('sha256').update(schema).digest('hex').slice(0, 32);
}
