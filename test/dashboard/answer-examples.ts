import { httpRequestStore } from '../../src/features/http-request/store.ts';
import { firstIdAt } from '../../src/model/payload.ts';
import { HOOK_ONLY_ID, ORDERS, ORDERS_ID, UNKNOWN_ID } from './fixture.ts';
import { ASANA_ID, api, FOLDER_ID, IN_FOLDER, type Populated } from './populated.ts';

/*
 * Requests for every operation by its name: for something that it does and for something that it refuses. Those of one
 * operation are asked in this order, and so are the operations: what one did, the next one finds.
 */

/** What a request is made of; words in capitals stand for ids that only the running app knows. */
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
const run = (rest: string) => [at(`/runs/RUN${rest}`, 200), at(`/runs/${UNKNOWN_ID}${rest}`, 404)];
const flow = (rest: string) => [at(`/flows/${ORDERS_ID}${rest}`, 200), at(`/flows/${UNKNOWN_ID}${rest}`, 404)];
const job = `flow-${ORDERS_ID}-hourly`;
const schedule = (rest: string, body?: unknown) => [
  at(`/schedules/${job}/${rest}`, 200, { body }),
  at(`/schedules/nobody/${rest}`, 404, { body }),
];
const list = (path: string) => [at(path, 200), at(`${path}?includeTotal=true`, 200), at(`${path}?take=0`, 400)];
const strict = (path: string) => [at(path, 200), at(`${path}?nobody=1`, 400)];

/** Where a consumer begins that begins with the year. */
const FIRST_OF_2026 = firstIdAt(Date.parse('2026-01-01T00:00:00Z'));

export const examples: Record<string, readonly Example[]> = {
  // Every reason of it is asked for in receive-answers.test.ts.
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
  listAttention: strict('/attention'),
  listReplicas: strict('/replicas'),
  listHosts: strict('/hosts'),
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
    at('/hosts/nobody/close-circuit', 404),
  ],
  listAlertTargets: strict('/alerts'),
  getActor: strict('/actor'),
  verifyActivity: [
    at('/activity/verify', 200),
    at(`/activity/verify?expect=1:${'a'.repeat(64)}`, 200),
    at('/activity/verify?expect=1', 400),
  ],
  listActivity: [...list('/activity'), at('/activity?actor=anyone&since=0', 200), at('/activity?until=noon', 400)],
  listKeys: [...strict('/keys'), at(`/keys?flowId=${ORDERS_ID}`, 200), at('/keys?flowId=x', 400)],
  listHandlers: strict('/handlers'),
  getManifestSchema: strict('/manifest-schema'),
  listSchemes: strict('/schemes'),
  listDeliveries: [...list('/webhooks/recent'), at('/webhooks/recent?search=order&reason=SIGNATURE_MISMATCH', 200)],
  openConsumer: [
    at('/webhooks/consumers/ada@laptop', 200, { body: { since: '2026-01-01T00:00:00Z' } }),
    at('/webhooks/consumers/ada@laptop', 409, { body: { flowId: ORDERS_ID } }),
    at('/webhooks/consumers/a%20b', 400),
  ],
  listConsumers: strict('/webhooks/consumers'),
  getConsumer: [at('/webhooks/consumers/ada@laptop', 200), at('/webhooks/consumers/nobody', 404)],
  readConsumer: [
    at('/webhooks/consumers/ada@laptop/deliveries?take=1', 200),
    at('/webhooks/consumers/nobody/deliveries', 404),
    at('/webhooks/consumers/ada@laptop/deliveries?take=0', 400),
  ],
  advanceConsumer: [
    at(`/webhooks/consumers/ada@laptop/advance?from=${FIRST_OF_2026}&to=1.0.${UNKNOWN_ID}`, 200),
    at(`/webhooks/consumers/ada@laptop/advance?from=${FIRST_OF_2026}&to=1.0.${UNKNOWN_ID}`, 409),
    at(`/webhooks/consumers/nobody/advance?from=${UNKNOWN_ID}&to=1.0.${UNKNOWN_ID}`, 404),
    at(`/webhooks/consumers/ada@laptop/advance?from=${UNKNOWN_ID}&to=x`, 400),
  ],
  deleteConsumer: [at('/webhooks/consumers/ada@laptop', 200), at('/webhooks/consumers/ada@laptop', 404)],
  getBooks: [at('/books', 200), at('/books?since=1', 200), at('/books?since=2026-03-02&until=2026-03-01', 400)],
  deliveryStats: [at('/webhooks/stats', 200), at('/webhooks/stats?hours=0', 400)],
  webhookTimeseries: [at('/webhooks/timeseries?bucket=day', 200), at('/webhooks/timeseries?hours=0', 400)],
  webhookReadiness: [at('/webhooks/readiness', 200), at('/webhooks/readiness?flowId=x', 400)],
  getDelivery: [
    at('/webhooks/DELIVERY', 200),
    at('/webhooks/REFUSED', 200),
    at('/webhooks/42', 400),
    at(`/webhooks/${UNKNOWN_ID}`, 404),
  ],
  getDeliveryBody: [
    at('/webhooks/DELIVERY/body', 200),
    at('/webhooks/42/body', 400),
    at(`/webhooks/${UNKNOWN_ID}/body`, 404),
  ],
  getEvidence: [
    at('/webhooks/DELIVERY/evidence', 200),
    at('/webhooks/42/evidence', 400),
    at(`/webhooks/${UNKNOWN_ID}/evidence`, 404),
  ],
  dryRunDelivery: [at('/webhooks/dry-run/orders', 200, { body: { order: 7 } }), at('/webhooks/dry-run/nobody', 404)],
  redeliverDelivery: [
    at('/webhooks/REFUSED/redeliver', 200, { body: { force: true } }),
    at('/webhooks/REFUSED/redeliver', 400, { body: { force: 1 } }),
    at(`/webhooks/${UNKNOWN_ID}/redeliver`, 404),
  ],
  redeliverDeliveries: [
    at('/webhooks/redeliver', 200, { body: { reason: 'signature_mismatch' } }),
    at('/webhooks/redeliver', 400, { body: { limit: 0 } }),
  ],
  listRuns: [...list('/runs'), at('/runs?search=orders&status=running', 200)],
  listActiveRuns: strict('/runs/active'),
  getRun: run(''),
  listSteps: [
    ...run('/steps'),
    at('/runs/LOOPING/steps?includeTotal=true&take=1', 200),
    at('/runs/RUN/steps?take=0', 400),
  ],
  getStepInput: [at('/runs/FAILED/steps/validate/input', 200), at('/runs/RUN/steps/nobody/input', 404)],
  getStepOutput: [
    ...run('/steps/validate/output'),
    at('/runs/FAILED/steps/validate/output?attempt=1', 200),
    at('/runs/FAILED/steps/validate/output?attempt=9', 404),
    at('/runs/FAILED/steps/validate/output?attempt=0', 400),
  ],
  getRunControl: run('/control'),
  outlineRun: [...run('/outline'), at('/runs/LOOPING/outline', 200)],
  getRunTrigger: [...run('/trigger'), at('/runs/FAILED/trigger', 200)],
  getStep: [
    ...run('/steps/validate'),
    at('/runs/FAILED/steps/validate', 200),
    at('/runs/LOOPING/steps/lines.1.pack', 200),
    at('/runs/RUN/steps/nobody', 404),
  ],
  listIterations: [
    at('/runs/LOOPING/iterations?loop=lines', 200),
    at('/runs/LOOPING/iterations', 400),
    at('/runs/RUN/iterations?loop=nobody', 404),
  ],
  listRunEvents: run('/events'),
  getRunLineage: run('/lineage'),
  runStats: strict('/runs/stats'),
  listRunFailures: [at('/runs/failures', 200), at('/runs/failures?since=2&until=1', 400)],
  runTimeseries: [at('/runs/timeseries', 200), at('/runs/timeseries?since=2000-01-01T00:00:00Z', 400)],
  retryStep: [
    at('/runs/FAILED/steps/validate/retry', 200),
    at('/runs/FAILED/steps/nobody/retry', 404),
    at('/runs/RUN/steps/validate/retry', 409),
  ],
  rerunRun: [at('/runs/RUN/rerun', 200), at(`/runs/${UNKNOWN_ID}/rerun`, 404)],
  cancelRun: [
    at('/runs/RUN/cancel', 200, { body: { reason: 'why' } }),
    at('/runs/RUN/cancel', 409),
    at('/runs/RUN/cancel', 400, { body: [] }),
  ],
  cancelRuns: [
    at('/runs/cancel', 200, { body: { search: 'orders' } }),
    at('/runs/cancel', 400, { body: { plan: false } }),
  ],
  retryRuns: [at('/runs/retry', 200), at('/runs/retry', 400, { body: { limit: 0 } })],
  rerunRuns: [at('/runs/rerun', 200, { body: { status: 'Failed' } }), at('/runs/rerun', 400, { body: { token: 1 } })],
  releaseOrder: [
    at('/runs/HOLDING/release-order', 200),
    at('/runs/RUN/release-order', 409),
    at(`/runs/${UNKNOWN_ID}/release-order`, 404),
  ],
  sendSignal: [
    at('/runs/WAITING/signals/approve', 200, { body: { by: 'me' } }),
    at('/runs/WAITING/signals/other', 404),
    at('/runs/WAITING/signals/approve', 409),
  ],
  listFlows: list('/flows'),
  getFlow: flow(''),
  deployFlow: [
    at(`/flows/${ORDERS_ID}?dryRun=true`, 200, { body: { ...ORDERS, version: '1.3.0' } }),
    at(`/flows/${ORDERS_ID}`, 200, { body: { ...ORDERS, version: '1.3.0' } }),
    at(`/flows/${ORDERS_ID}`, 409, { body: { ...ORDERS, steps: {} } }),
    at(`/flows/${ORDERS_ID}`, 400, { body: { ...ORDERS, steps: { charge: { type: 'NoSuchHandler' } } } }),
    at(`/flows/${ORDERS_ID}?allow=everything`, 400, { body: ORDERS }),
  ],
  deployFlows: [
    at('/flows?dryRun=true&wholeFolder=true', 409, { body: [{ ...ORDERS, steps: {} }] }),
    at('/flows?dryRun=true', 200, { body: [{ ...ORDERS, version: '1.4.0' }] }),
    at('/flows', 400, { body: [{ ...ORDERS, steps: { charge: { type: 'NoSuchHandler' } } }] }),
    at('/flows', 400, { body: {} }),
  ],
  rehearseFlows: [
    at('/flows/rehearse', 200, {
      body: { manifests: [{ ...ORDERS, steps: {} }], deliveries: 3, answers: { [ORDERS_ID]: { charge: [{}] } } },
    }),
    at('/flows/rehearse', 400, { body: { manifests: [{ ...ORDERS, steps: { charge: { type: 'NoSuchHandler' } } }] } }),
    at('/flows/rehearse', 400, { body: { manifests: [], answers: { [ORDERS_ID]: { charge: { output: 1 } } } } }),
  ],
  reloadFlows: [
    at('/flows/reload?dryRun=true', 200),
    at('/flows/reload', 200, { before: ({ inFolder }) => inFolder(IN_FOLDER) }),
    at('/flows/reload', 409, {
      before: ({ triggered, inFolder }) => triggered(FOLDER_ID).then(() => inFolder({ ...IN_FOLDER, steps: {} })),
    }),
    at('/flows/reload', 409, { before: ({ inFolder }) => inFolder({ ...IN_FOLDER, version: 7 }) }),
    at('/flows/reload?allow=everything', 400),
  ],
  listRevisions: [
    ...flow('/revisions'),
    at(`/flows/${ORDERS_ID}/revisions?includeTotal=true`, 200),
    at(`/flows/${ORDERS_ID}/revisions?take=0`, 400),
  ],
  getRevision: [
    ...flow('/revisions/1'),
    at(`/flows/${ORDERS_ID}/revisions/999`, 404),
    at(`/flows/${ORDERS_ID}/revisions/x`, 400),
  ],
  diffRevisions: [...flow('/revisions/1/diff/2'), at(`/flows/${ORDERS_ID}/revisions/2/diff/0`, 400)],
  restoreRevision: [
    at(`/flows/${ORDERS_ID}/revisions/1/restore?dryRun=true`, 200),
    at(`/flows/${ORDERS_ID}/revisions/1/restore`, 200),
    at(`/flows/${ORDERS_ID}/revisions/3/restore`, 409),
    at(`/flows/${ORDERS_ID}/revisions/999/restore`, 404),
    at(`/flows/${UNKNOWN_ID}/revisions/1/restore`, 404),
    at(`/flows/${ORDERS_ID}/revisions/1/restore?allow=everything`, 400),
  ],
  listPaths: flow('/paths'),
  drainFlow: flow('/drain'),
  getDrain: flow('/drain'),
  endDrain: flow('/drain'),
  resumeFlow: flow('/resume'),
  forgetLearnedKey: [
    at(`/flows/${ASANA_ID}/triggers/tasks/learned-key`, 200),
    at(`/flows/${ASANA_ID}/triggers/nobody/learned-key`, 404),
    at(`/flows/${UNKNOWN_ID}/triggers/tasks/learned-key`, 404),
  ],
  getFlowMermaid: flow('/mermaid'),
  triggerFlow: [...flow('/trigger'), at(`/flows/${ORDERS_ID}/trigger?triggerKey=nobody`, 400)],
  disableFlow: flow('/disable'),
  enableFlow: [...flow('/enable'), at('/flows/x/enable', 400)],
  listSchedules: list('/schedules'),
  previewSchedule: [at('/schedules/preview?cronExpression=0%209%20*%20*%20*', 200), at('/schedules/preview', 400)],
  pauseSchedule: schedule('pause'),
  resumeSchedule: schedule('resume'),
  triggerSchedule: schedule('trigger'),
  changeCron: [...schedule('cron', { cronExpression: '0 2 * * *' }), at(`/schedules/${job}/cron`, 400, { body: {} })],
  discardHeld: [
    at(`/flows/${ORDERS_ID}/held/discard`, 200, { body: { reason: 'done by hand', before: '2026-03-01T12:00:00Z' } }),
    at(`/flows/${ORDERS_ID}/held/discard`, 400, { body: {} }),
    at(`/flows/${UNKNOWN_ID}/held/discard`, 404, { body: { reason: 'done by hand' } }),
  ],
  deleteFlow: [
    at(`/flows/${FOLDER_ID}`, 409, { before: ({ inFolder }) => inFolder(IN_FOLDER) }),
    at(`/flows/${ASANA_ID}?reason=moved`, 200),
    at(`/flows/${ASANA_ID}`, 404),
    at('/flows/x', 400),
  ],
};
