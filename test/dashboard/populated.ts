import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from '../temporary.ts';
import {
  endDue,
  HOOK_ONLY_ID,
  ORDERS,
  ORDERS_ID,
  orderDelivery,
  startDashboard,
  type TestDashboard,
} from './fixture.ts';

export const api = '/flows/api';

const APPROVAL_ID = '4fb26388-a051-4d42-9e95-7343c1605e54';
const APPROVAL = {
  id: APPROVAL_ID,
  name: 'approval',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: { approved: { type: 'WaitForSignal', inputs: { signalName: 'approve' } } },
};

export const ASANA_ID = '0d6c7b1e-3f0a-4c55-9a0b-6a7c1f2e9d44';
/** Learns the key that the publisher hands over. */
const ASANA = {
  id: ASANA_ID,
  name: 'asana',
  version: '1',
  triggers: {
    tasks: {
      type: 'webhook',
      inputs: { webhookSlug: 'tasks', webhookSignatureScheme: 'asana', webhookLearnKey: true },
    },
  },
  steps: { only: { type: 'NoOp' } },
};

const LOOPING_ID = '2d7a4d6c-52a1-4a0e-9c5f-1d6b7f0f3a55';
const LOOPING = {
  id: LOOPING_ID,
  name: 'looping',
  version: '1',
  triggers: { byHand: { type: 'manual' } },
  steps: { lines: { type: 'ForEach', forEach: ['a', 'b'], concurrencyLimit: 1, steps: { pack: { type: 'NoOp' } } } },
};

const HOLDING_ID = '5a0c8f2e-7b1d-4e93-8c46-2f9d0e7a1b33';
const HOLDING = {
  id: HOLDING_ID,
  name: 'holding',
  version: '1',
  serialize: 'trigger.key',
  serializeOnFailure: 'stop',
  triggers: { byHand: { type: 'manual' } },
  steps: { one: { type: 'NoOp' } },
};

const HOOK_ONLY = {
  id: HOOK_ONLY_ID,
  name: 'hook only',
  version: '1',
  triggers: {
    hook: { type: 'webhook', inputs: {} },
    // The publisher tests its URL with a GET.
    files: {
      type: 'webhook',
      inputs: { webhookSlug: 'files', webhookSignatureScheme: 'Dropbox', webhookHmacKey: 'k'.repeat(32) },
    },
  },
  steps: {},
};

/** The flow in the folder of manifests. */
export const FOLDER_ID = '7e1d9c40-8b7a-4f63-9a3e-5c2b0d8f6e19';
export const IN_FOLDER = { id: FOLDER_ID, name: 'in folder', version: '1', steps: { one: { type: 'NoOp' } } };

/** An app with examples of everything. */
export interface Populated {
  readonly dashboard: TestDashboard;
  /** Ids that only the running app knows, by the words that stand for them. */
  readonly ids: Readonly<Record<string, string>>;
  /** From then on the process is not ready. */
  stop(): void;
  /** Undoes `stop`. */
  goOn(): void;
  /** Starts a run; returns its id. */
  triggered(flowId: string): Promise<string>;
  /** Writes the only manifest of the folder that is read again. */
  inFolder(manifest: object): Promise<void>;
}

export async function startPopulated(): Promise<Populated> {
  const folder = temporaryFolder('manifests');
  let isStopping = false;
  const manifests = [ORDERS, HOOK_ONLY, APPROVAL, ASANA, LOOPING, HOLDING];
  const dashboard = await startDashboard(
    { isLeaving: () => isStopping, isStopping: () => isStopping },
    manifests,
    folder,
  );
  const triggered = async (flowId: string): Promise<string> =>
    (await dashboard.app.inject({ method: 'POST', url: `${api}/flows/${flowId}/trigger` })).json().runId;
  return {
    dashboard,
    ids: await populate(dashboard, triggered),
    stop: () => {
      isStopping = true;
    },
    goOn: () => {
      isStopping = false;
    },
    triggered,
    inFolder: (manifest) => writeFile(join(folder, 'one.json'), JSON.stringify(manifest)),
  };
}

async function populate(
  dashboard: TestDashboard,
  triggered: (flowId: string) => Promise<string>,
): Promise<Record<string, string>> {
  const { app } = dashboard;
  const LOOPING_RUN = await triggered(LOOPING_ID);
  await endDue(dashboard, { kind: 'loop', items: ['a', 'b'], concurrency: 1 });
  const FAILED = await triggered(ORDERS_ID);
  const HOLDING_RUN = await triggered(HOLDING_ID);
  await endDue(dashboard, { kind: 'failed', error: { code: 'refused', message: 'no', retryable: false } });
  const WAITING = await triggered(APPROVAL_ID);
  const key = 'b537207f20cbfa02357cf448134da559';
  await app.inject({ method: 'POST', url: `${api}/webhook/tasks`, headers: { 'x-hook-secret': key } });
  const { deliveryId: DELIVERY, runId: RUN } = (await app.inject(orderDelivery('{"order":1}'))).json();
  await app.inject(orderDelivery('{"order":2}', { key: 'wrong' }));
  await app.inject({
    method: 'POST',
    url: `${api}/webhook/nobody`,
    headers: { cookie: 'a=b' },
    body: Buffer.from([0, 255]),
  });
  const refused = await dashboard.store.listDeliveries({ reason: 'signature_mismatch', skip: 0, take: 1 });
  return {
    LOOPING: LOOPING_RUN,
    HOLDING: HOLDING_RUN,
    FAILED,
    WAITING,
    DELIVERY,
    RUN,
    REFUSED: refused.items[0]?.id ?? '',
  };
}
