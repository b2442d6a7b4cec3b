import { httpRequestStore } from '../../src/features/http-request/store.ts';
import { firstIdAt } from '../../src/model/delivery-ids.ts';
import { HOOK_ONLY_ID, ORDERS, ORDERS_ID, UNKNOWN_ID } from './fixture.ts';
import { ASANA_ID, api, FOLDER_ID, IN_FOLDER, type Populated } from './populated.ts';

/*
 * Requests for every operation, by name: one that succeeds, and one that its state refuses. They are sent in this
 * order, within an operation and across operations: each finds what the earlier ones did.
 */

/** The parts of a request; words in capitals stand for ids that only the running app knows. */
export interface Example {
  readonly url: string;
  readonly status: number;
  readonly body?: unknown;
  readonly before?: (populated: Populated) => Promise<unknown>;
}

const at = (url: string, status: number, rest: Partial<Example> = {}): Example => ({
  url: `${api}${url}`,
  status,
  ...rest,
});
const read = (path: string) => [at(path, 200)];
const run = (rest: string) => read(`/runs/RUN${rest}`);
const flow = (rest: string) => read(`/flows/${ORDERS_ID}${rest}`);
const schedule = (rest: string, body?: unknown) => [at(`/schedules/flow-${ORDERS_ID}-hourly/${rest}`, 200, { body })];
const list = (path: string) => [at(path, 200), at(`${path}?includeTotal=true`, 200)];

/** Cursor of a consumer that begins with the year. */
const FIRST_OF_2026 = firstIdAt(Date.parse('2026-01-01T00:00:00Z'));

export const examples: Record<string, readonly Example[]> = {
  // receive-answers.test.ts tests every reason of it.
  receiveDelivery: [
    { url: `${api}/webhook/${HOOK_ONLY_ID}`, status: 200, body: { order: 7 } },
    { url: `${api}/webhook/nobody`, status: 404, body: { order: 7 } },
  ],
  answerHandshake: [
    { url: `${api}/webhook/files?challenge=abc`, status: 200 },
    { url: `${api}/webhook/${HOOK_ONLY_ID}`, status: 405 },
    { url: `${api}/webhook/nobody`, status: 404 },
  ],
  live: [{ url: '/health/live', status: 200 }],
  ready: [
    { url: '/health/ready', status: 200 },
    { url: '/health/ready', status: 503, before: async ({ stop }) => stop() },
  ],
  metrics: [{ url: '/metrics', status: 200 }],
  listAttention: read('/attention'),
  listReplicas: read('/replicas'),
  listHosts: read('/hosts'),
  closeCircuit: [
    at('/hosts/https%3A%2F%2Fapi.example.com/close-circuit', 200, {
      before: async ({ dashboard: { store } }) => {
        const failed = { why: 'failed', since: 0, failures: 10, lastError: 'ECONNREFUSED', probes: 0 };
        const circuit = { state: 'open', caller: null, ...failed, until: 5000 };
        await store
          .of(httpRequestStore)
          .changeCircuit({ queue: 'https://api.example.com', version: null, next: 1, circuit });
      },
    }),
  ],
  listAlertTargets: read('/alerts'),
  getActor: read('/actor'),
  verifyActivity: [at('/activity/verify', 200), at(`/activity/verify?expect=1:${'a'.repeat(64)}`, 200)],
  listActivity: [...list('/activity'), at('/activity?actor=anyone&since=0', 200)],
  listKeys: [...read('/keys'), at(`/keys?flowId=${ORDERS_ID}`, 200)],
  listHandlers: read('/handlers'),
  getManifestSchema: read('/manifest-schema'),
  listSchemes: read('/schemes'),
  listDeliveries: [...list('/webhooks/recent'), at('/webhooks/recent?search=order&reason=SIGNATURE_MISMATCH', 200)],
  openConsumer: [
    at('/webhooks/consumers/ada@laptop', 200, { body: { since: '2026-01-01T00:00:00Z' } }),
    at('/webhooks/consumers/ada@laptop', 409, { body: { flowId: ORDERS_ID } }),
  ],
  listConsumers: read('/webhooks/consumers'),
  getConsumer: [at('/webhooks/consumers/ada@laptop', 200)],
  readConsumer: [at('/webhooks/consumers/ada@laptop/deliveries?take=1', 200)],
  advanceConsumer: [
    at(`/webhooks/consumers/ada@laptop/advance?from=${FIRST_OF_2026}&to=1.0.${UNKNOWN_ID}`, 200),
    at(`/webhooks/consumers/ada@laptop/advance?from=${FIRST_OF_2026}&to=1.0.${UNKNOWN_ID}`, 409),
    at(`/webhooks/consumers/ada@laptop/advance?from=${UNKNOWN_ID}&to=x`, 400),
  ],
  deleteConsumer: [at('/webhooks/consumers/ada@laptop', 200)],
  getBooks: [at('/books', 200), at('/books?since=1', 200)],
  deliveryStats: [at('/webhooks/stats', 200)],
  webhookTimeseries: [at('/webhooks/timeseries?bucket=day', 200)],
  webhookReadiness: [at('/webhooks/readiness', 200)],
  getDelivery: [at('/webhooks/DELIVERY', 200), at('/webhooks/REFUSED', 200)],
  getDeliveryBody: [at('/webhooks/DELIVERY/body', 200)],
  listAnsweredSteps: [at('/webhooks/DELIVERY/answered', 200)],
  getEvidence: [at('/webhooks/DELIVERY/evidence', 200)],
  dryRunDelivery: [at('/webhooks/dry-run/orders', 200, { body: { order: 7 } })],
  redeliverDelivery: [at('/webhooks/REFUSED/redeliver', 200, { body: { force: true } })],
  redeliverDeliveries: [at('/webhooks/redeliver', 200, { body: { reason: 'signature_mismatch' } })],
  listRuns: [...list('/runs'), at('/runs?search=orders&status=running', 200)],
  listActiveRuns: read('/runs/active'),
  getRun: run(''),
  listSteps: [...run('/steps'), at('/runs/LOOPING/steps?includeTotal=true&take=1', 200)],
  getStepInput: [at('/runs/FAILED/steps/validate/input', 200)],
  getStepOutput: [...run('/steps/validate/output'), at('/runs/FAILED/steps/validate/output?attempt=1', 200)],
  getRunControl: run('/control'),
  outlineRun: [...run('/outline'), at('/runs/LOOPING/outline', 200)],
  getRunTrigger: [...run('/trigger'), at('/runs/FAILED/trigger', 200)],
  getStep: [
    ...run('/steps/validate'),
    at('/runs/FAILED/steps/validate', 200),
    at('/runs/LOOPING/steps/lines.1.pack', 200),
  ],
  listIterations: [at('/runs/LOOPING/iterations?loop=lines', 200)],
  listRunEvents: run('/events'),
  getRunLineage: run('/lineage'),
  runStats: read('/runs/stats'),
  listRunFailures: [at('/runs/failures', 200)],
  runTimeseries: [at('/runs/timeseries', 200)],
  retryStep: [at('/runs/FAILED/steps/validate/retry', 200), at('/runs/RUN/steps/validate/retry', 409)],
  rerunRun: [at('/runs/RUN/rerun', 200)],
  cancelRun: [at('/runs/RUN/cancel', 200, { body: { reason: 'why' } }), at('/runs/RUN/cancel', 409)],
  cancelRuns: [at('/runs/cancel', 200, { body: { search: 'orders' } })],
  retryRuns: [at('/runs/retry', 200)],
  rerunRuns: [at('/runs/rerun', 200, { body: { status: 'Failed' } })],
  releaseOrder: [at('/runs/HOLDING/release-order', 200), at('/runs/RUN/release-order', 409)],
  sendSignal: [
    at('/runs/WAITING/signals/approve', 200, { body: { by: 'me' } }),
    at('/runs/WAITING/signals/approve', 409),
  ],
  listFlows: list('/flows'),
  flowStats: read('/flows/stats'),
  getFlow: flow(''),
  deployFlow: [
    at(`/flows/${ORDERS_ID}?dryRun=true`, 200, { body: { ...ORDERS, version: '1.3.0' } }),
    at(`/flows/${ORDERS_ID}`, 200, { body: { ...ORDERS, version: '1.3.0' } }),
    at(`/flows/${ORDERS_ID}`, 409, { body: { ...ORDERS, steps: {} } }),
    at(`/flows/${ORDERS_ID}`, 400, { body: { ...ORDERS, steps: { charge: { type: 'NoSuchHandler' } } } }),
  ],
  deployFlows: [
    at('/flows?dryRun=true&wholeFolder=true', 409, { body: [{ ...ORDERS, steps: {} }] }),
    at('/flows?dryRun=true', 200, { body: [{ ...ORDERS, version: '1.4.0' }] }),
    at('/flows', 400, { body: [{ ...ORDERS, steps: { charge: { type: 'NoSuchHandler' } } }] }),
  ],
  rehearseFlows: [
    at('/flows/rehearse', 200, {
      body: { manifests: [{ ...ORDERS, steps: {} }], deliveries: 3, answers: { [ORDERS_ID]: { charge: [{}] } } },
    }),
    at('/flows/rehearse', 400, { body: { manifests: [{ ...ORDERS, steps: { charge: { type: 'NoSuchHandler' } } }] } }),
  ],
  reloadFlows: [
    at('/flows/reload?dryRun=true', 200),
    at('/flows/reload', 200, { before: ({ inFolder }) => inFolder(IN_FOLDER) }),
    at('/flows/reload', 409, {
      before: ({ triggered, inFolder }) => triggered(FOLDER_ID).then(() => inFolder({ ...IN_FOLDER, steps: {} })),
    }),
    at('/flows/reload', 409, { before: ({ inFolder }) => inFolder({ ...IN_FOLDER, version: 7 }) }),
  ],
  listRevisions: [...flow('/revisions'), at(`/flows/${ORDERS_ID}/revisions?includeTotal=true`, 200)],
  getRevision: [...flow('/revisions/1')],
  diffRevisions: [...flow('/revisions/1/diff/2')],
  restoreRevision: [
    at(`/flows/${ORDERS_ID}/revisions/1/restore?dryRun=true`, 200),
    at(`/flows/${ORDERS_ID}/revisions/1/restore`, 200),
    at(`/flows/${ORDERS_ID}/revisions/3/restore`, 409),
  ],
  listPaths: flow('/paths'),
  drainFlow: flow('/drain'),
  getDrain: flow('/drain'),
  endDrain: flow('/drain'),
  resumeFlow: flow('/resume'),
  forgetLearnedKey: [at(`/flows/${ASANA_ID}/triggers/tasks/learned-key`, 200)],
  getFlowMermaid: flow('/mermaid'),
  triggerFlow: [...flow('/trigger')],
  disableFlow: flow('/disable'),
  enableFlow: [...flow('/enable')],
  listSchedules: list('/schedules'),
  previewSchedule: [at('/schedules/preview?cronExpression=0%209%20*%20*%20*', 200)],
  pauseSchedule: schedule('pause'),
  resumeSchedule: schedule('resume'),
  triggerSchedule: schedule('trigger'),
  changeCron: [...schedule('cron', { cronExpression: '0 2 * * *' })],
  discardHeld: [
    at(`/flows/${ORDERS_ID}/held/discard`, 200, { body: { reason: 'done by hand', before: '2026-03-01T12:00:00Z' } }),
  ],
  deleteFlow: [
    at(`/flows/${FOLDER_ID}`, 409, { before: ({ inFolder }) => inFolder(IN_FOLDER) }),
    at(`/flows/${ASANA_ID}?reason=moved`, 200),
  ],
};

/** Values that operations refuse although their schemas allow them, and unknown parts of known things. */
export const refusals: Record<string, Example> = {
  verifyActivity: at('/activity/verify?expect=1', 400),
  openConsumer: at('/webhooks/consumers/a%20b', 400),
  getBooks: at('/books?since=2026-03-02&until=2026-03-01', 400),
  redeliverDelivery: at('/webhooks/REFUSED/redeliver', 400, { body: { force: 1 } }),
  redeliverDeliveries: at('/webhooks/redeliver', 400, { body: { limit: 0 } }),
  listRunFailures: at('/runs/failures?since=2&until=1', 400),
  runTimeseries: at('/runs/timeseries?since=2000-01-01T00:00:00Z', 400),
  retryStep: at('/runs/FAILED/steps/nobody/retry', 404),
  cancelRun: at('/runs/RUN/cancel', 400, { body: [] }),
  cancelRuns: at('/runs/cancel', 400, { body: { plan: false } }),
  retryRuns: at('/runs/retry', 400, { body: { limit: 0 } }),
  rerunRuns: at('/runs/rerun', 400, { body: { token: 1 } }),
  deployFlows: at('/flows', 400, { body: {} }),
  reloadFlows: at('/flows/reload?allow=everything', 400),
  restoreRevision: at(`/flows/${ORDERS_ID}/revisions/1/restore?allow=everything`, 400),
  discardHeld: at(`/flows/${ORDERS_ID}/held/discard`, 400, { body: {} }),
};
