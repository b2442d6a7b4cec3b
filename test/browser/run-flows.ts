import { getJson } from '../e2e/service.ts';

export const APPROVAL_ID = '5d0c1f7e-91a4-4b0b-8f0d-6a2f6f0c7e11';
export const CHARGE_ID = '6a1d0c1f-7e91-4b0b-8f0d-6a2f6f0c7e98';
export const BATCH_ID = '5a1d0c1f-7e91-4b0b-8f0d-6a2f6f0c7e97';
export const QUEUE_ID = '5a1d0c1f-7e91-4b0b-8f0d-6a2f6f0c7e96';
export const NIGHTLY_ID = 'c54e9a70-2b8d-4d61-9e17-f30b6a8c4d92';

const manual = { byHand: { type: 'manual' } };
const log = (message: string, runAfter: object) => ({ type: 'LogMessage', inputs: { message }, runAfter });
const expression = (source: string) => `\${${source}}`;

/** Waits for a signal, and takes one of two branches depending on it. */
const APPROVAL = {
  id: APPROVAL_ID,
  name: 'Approval',
  version: '1',
  triggers: manual,
  steps: {
    announce: { type: 'NoOp' },
    decision: { type: 'WaitForSignal', inputs: { signalName: 'decision' }, runAfter: { announce: ['Succeeded'] } },
    grant: log('granted', { decision: { when: 'steps.decision.output.approved == true' } }),
    refuse: log('refused', { decision: { when: 'steps.decision.output.approved != true' } }),
  },
};

/** Charges at an address that a test opens or keeps closed. */
export const chargeManifest = (chargeUrl: string) => ({
  id: CHARGE_ID,
  name: 'Charge',
  version: '1',
  triggers: manual,
  steps: {
    charge: { type: 'HttpRequest', inputs: { url: chargeUrl, method: 'POST', timeoutSeconds: 5 } },
    ship: log('shipped', { charge: ['Succeeded'] }),
  },
});

/** Two requests; its `concurrency` allows one at a time. */
export const queueManifest = (url: string) => ({
  id: QUEUE_ID,
  name: 'Queue',
  version: '1',
  concurrency: 1,
  triggers: manual,
  steps: { first: { type: 'HttpRequest', inputs: { url } }, second: { type: 'HttpRequest', inputs: { url } } },
});

/** A loop that fails at item 3 with a division by zero. */
const BATCH = {
  id: BATCH_ID,
  name: 'Batch',
  version: '1',
  triggers: manual,
  steps: {
    rows: {
      type: 'ForEach',
      forEach: expression('trigger.body.rows'),
      concurrencyLimit: 8,
      steps: {
        parse: { type: 'Transform', inputs: { value: expression('12 / loop.item') } },
        save: log('saved', { parse: ['Succeeded'] }),
      },
    },
    report: log('reported', { rows: ['Succeeded', 'Failed'] }),
  },
};

const NIGHTLY = {
  id: NIGHTLY_ID,
  name: 'Nightly report',
  version: '1',
  triggers: {
    nightly: { type: 'cron', inputs: { cronExpression: '0 2 * * *', timeZone: 'Europe/Berlin' } },
  },
  steps: { collect: { type: 'NoOp' } },
};

export const RUN_MANIFESTS = {
  'approval.json': APPROVAL,
  'batch.json': BATCH,
  'nightly.json': NIGHTLY,
};

/** Starts a run over the API; returns its id. */
export async function startRun(url: string, flowId: string, body: unknown = {}): Promise<string> {
  const response = await fetch(`${url}/flows/api/flows/${flowId}/trigger`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`trigger: ${response.status} ${await response.text()}`);
  return ((await response.json()) as { runId: string }).runId;
}

export async function runStatus(url: string, runId: string): Promise<string> {
  return (await getJson<{ run: { status: string } }>(`${url}/flows/api/runs/${runId}/outline`)).run.status;
}
