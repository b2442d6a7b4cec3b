import { stepTypes } from '../../../src/config/steps.ts';
import { createAnsweredSimulator } from '../../../src/features/rehearsal/answered.ts';
import type { StepHandler } from '../../../src/flows/handlers/handler.ts';
import { handlerTable } from '../../../src/flows/handlers/index.ts';
import { readManifest } from '../../../src/manifest/parse.ts';
import type { Json } from '../../../src/model/json.ts';
import { openMemoryStore } from '../../../src/store/sqlite/memory.ts';

export const FLOW_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
export const START = Date.parse('2026-03-01T12:00:00Z');

/** A flow as a service has loaded it; every reference reads as the same text. */
export function loaded(
  steps: object,
  { own = [], ...rest }: { own?: readonly StepHandler[]; [field: string]: unknown } = {},
) {
  const handlers = handlerTable([...stepTypes().handlers, ...own]);
  const manifest = { id: FLOW_ID, version: '1', steps, triggers: { hook: { type: 'webhook' } }, ...rest };
  const rules = { handlers, readSecret: () => ({ value: SECRET }), strict: false, checks: [], sealsSecrets: true };
  const { flow, issues } = readManifest(JSON.stringify(manifest), 'manifest.json', rules);
  if (flow === undefined) throw new Error(JSON.stringify(issues));
  return { flow, handlers };
}

/** Must not appear in a simulation. */
export const SECRET = 's3cret-of-the-process';

export async function simulatorOf(
  { flow, handlers }: ReturnType<typeof loaded>,
  flows: Parameters<typeof createAnsweredSimulator>[0]['flows'] = [],
) {
  const store = openMemoryStore();
  const simulator = await createAnsweredSimulator({ store, flow, flows, handlers });
  return { ...simulator, close: () => store.close() };
}

export function delivered(body: Json, headers: Readonly<Record<string, string>> = {}) {
  const bytes = Buffer.from(JSON.stringify(body));
  const trigger = { key: 'hook', body: bytes, contentType: 'application/json', headers };
  return { trigger, triggerType: 'webhook', at: START } as const;
}
