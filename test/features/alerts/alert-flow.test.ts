import { describe, expect, it } from 'vitest';
import { ALERT_FLOW_ID } from '../../../src/model/manifest.ts';
import { buildApp } from '../../database.ts';
import { createWorkspace } from '../../e2e/service.ts';

const ALL = 'all-0f1e2d3c4b5a6978';
const OTHER = '0b7c9d10-0000-4000-8000-000000000002';
const MANIFEST = { id: ALERT_FLOW_ID, name: 'Mine', version: '2', steps: { a: { type: 'NoOp' } } };
const FLOW = `/flows/api/flows/${ALERT_FLOW_ID}`;
const targets = { ops: { type: 'slack', url: 'https://hooks.example.com/canary' } };

async function start({ manifests = [] as object[] } = {}) {
  const workspace = await createWorkspace();
  for (const [at, manifest] of manifests.entries()) await workspace.writeManifest(`${at}.json`, manifest);
  const app = await buildApp({
    settings: { port: 0, dashboardToken: ALL, alerts: { targets } as never },
    folder: workspace.folder,
  });
  await app.listen();
  const ask = async (method: 'GET' | 'POST' | 'PUT' | 'DELETE', url: string, payload?: unknown) => {
    const headers = { authorization: `Bearer ${ALL}` };
    const body = payload === undefined ? {} : { payload: JSON.stringify(payload) };
    const response = await app.fastify.inject({ method, url, headers, ...body });
    return { status: response.statusCode, json: response.json() };
  };
  const attention = async () => {
    const { json } = await ask('GET', '/flows/api/attention');
    return json.filter(({ kind }: { kind: string }) => kind === 'alerts_not_in_force');
  };
  return { app, ask, attention };
}

describe('the flow that tells of alerts', () => {
  it.each([
    ['run', 'POST', `${FLOW}/trigger`, {}],
    [
      'run, however its id is written',
      'POST',
      `${FLOW.toUpperCase().replace('/FLOWS/API/FLOWS', '/flows/api/flows')}/trigger`,
      {},
    ],
    ['disabled', 'POST', `${FLOW}/disable`, undefined],
    ['drained', 'POST', `${FLOW}/drain`, undefined],
    ['replaced', 'PUT', FLOW, MANIFEST],
    ['restored', 'POST', `${FLOW}/revisions/1/restore`, undefined],
  ] as const)('cannot be %s by a token that has all scopes', async (_what, method, url, payload) => {
    const { ask, app } = await start();
    expect(await ask(method, url, payload)).toMatchObject({ status: 403, json: { reason: 'built_in_flow' } });
    const flow = app.catalog.find(ALERT_FLOW_ID);
    expect([flow?.record.name, flow?.record.isEnabled, flow?.record.drainingSince]).toEqual([
      'Sluice alerts',
      true,
      undefined,
    ]);
    expect((await ask('GET', `/flows/api/runs?flowId=${ALERT_FLOW_ID}`)).json).toEqual([]);
  });

  it.each([
    ['has its id', MANIFEST, 'id'],
    [
      'runs it',
      { ...MANIFEST, id: OTHER, steps: { tell: { type: 'RunFlow', inputs: { flow: ALERT_FLOW_ID } } } },
      'steps.tell.inputs.flow',
    ],
    ['runs it when it fails', { ...MANIFEST, id: OTHER, onFailure: ALERT_FLOW_ID }, 'onFailure'],
  ])('is not deployed with others, in a manifest that %s', async (_what, manifest, path) => {
    const { app, ask } = await start();
    const { status, json } = await ask('PUT', '/flows/api/flows', [manifest]);
    expect(status).toBe(400);
    expect(JSON.stringify(json)).toContain(path);
    expect(app.catalog.find(OTHER)).toBeUndefined();
    expect(app.catalog.find(ALERT_FLOW_ID)?.record.name).toBe('Sluice alerts');
  });

  it('is not replaced by a manifest of the folder', async () => {
    const { app, ask } = await start({ manifests: [MANIFEST] });
    expect(app.catalog.find(ALERT_FLOW_ID)?.record.name).toBe('Sluice alerts');
    expect((await ask('GET', '/flows/api/attention')).json).toContainEqual(
      expect.objectContaining({
        kind: 'manifest_unreadable',
        message: expect.stringContaining('no manifest may name it'),
      }),
    );
  });

  it('is not run again, one run or many', async () => {
    const { app, ask } = await start();
    const flow = app.catalog.find(ALERT_FLOW_ID);
    if (flow === undefined) throw new Error('it is not deployed');
    const runId = '01a20000-0000-7000-8000-000000000001';
    const trigger = { key: 'ops', contentType: null, headers: {}, body: new Uint8Array() };
    const origin = { deliveryId: null, sourceRunId: null, traceparent: null };
    const run = app.engine.planRun({ runId, flow, triggerType: 'manual', trigger, ...origin, at: Date.now() });
    await app.store.accept({ run });
    await app.store.cancelRun({ runId, reason: null, at: Date.now() });
    expect(await ask('POST', `/flows/api/runs/${runId}/rerun`)).toMatchObject({ json: { reason: 'built_in_flow' } });
    const { json } = await ask('POST', '/flows/api/runs/rerun', { flowId: ALERT_FLOW_ID });
    expect(json).toMatchObject({ leftOut: [{ reason: 'built_in_flow' }] });
  });
});

it('is an attention item while it is closed, and may be opened again', async () => {
  const { app, ask, attention } = await start();
  expect(await attention()).toEqual([]);
  await app.catalog.setEnabled(ALERT_FLOW_ID, false);
  expect(await attention()).toMatchObject([
    { severity: 'error', message: expect.stringContaining('is disabled; enable it') },
  ]);
  expect((await ask('POST', `${FLOW}/enable`)).status).toBe(200);
  expect(await attention()).toEqual([]);
});
